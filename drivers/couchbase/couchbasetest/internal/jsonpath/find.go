package jsonpath

import (
	"bytes"

	"github.com/couchbase/gocbcore/v10/memd"
)

// span is a part of a document, by its bytes.
type span struct{ start, end int }

// match is where a path leads in a document.
type match struct {
	value span // what it leads to, when found
	// entry is value with its name, and container what it is in; zero for the
	// empty path.
	entry, container span

	found bool
	// When not found: how many components were, and what the last of them is.
	depth int
	last  span
}

// locate follows path through doc, which is valid JSON. A component that the
// document does not have is no error; one that cannot be, is. As on the server, what is up to the end of
// the match must not be too deep.
func locate(doc []byte, path []Elem) (match, memd.StatusCode) {
	m, status := follow(doc, path)
	end := len(doc)
	if m.found {
		end = m.value.end
	}
	if status == memd.StatusSuccess && tooDeep(doc[:end]) {
		return match{}, memd.StatusSubDocDocTooDeep
	}
	return m, status
}

// maxLevels is how deep objects and arrays may be nested. Source: subjson, match.cc, PARSER_DEPTH, which
// counts the value too.
const maxLevels = 32

// tooDeep reports whether doc, the beginning of a document, has too many levels.
func tooDeep(doc []byte) bool {
	for i, depth := 0, 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			i = skipString(doc, i) - 1
		case '{', '[':
			if depth++; depth > maxLevels {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}

func follow(doc []byte, path []Elem) (match, memd.StatusCode) {
	start := skipSpace(doc, 0)
	m := match{value: span{start, skipValue(doc, start)}}
	for i, e := range path {
		in := m.value
		var value, entry span
		var found bool
		switch first := doc[in.start]; {
		case e.isIndex && first == '[':
			value, found = elementAt(doc, in, e.index)
			entry = value
		case !e.isIndex && first == '{':
			value, entry, found = memberOf(doc, in, e.name)
		default:
			return match{}, memd.StatusSubDocPathMismatch
		}
		if !found {
			return match{depth: i, last: in}, memd.StatusSuccess
		}
		m.value, m.entry, m.container = value, entry, in
	}
	m.found = true
	return m, memd.StatusSuccess
}

// elementAt finds an element of the array in doc.
func elementAt(doc []byte, array span, index int) (value span, found bool) {
	i, n := skipSpace(doc, array.start+1), 0
	for doc[i] != ']' {
		value = span{i, skipValue(doc, i)}
		if n == index {
			return value, true
		}
		n++
		if i = skipSpace(doc, value.end); doc[i] == ',' {
			i = skipSpace(doc, i+1)
		}
	}
	return value, index == lastElement && n > 0
}

// memberOf finds a member of the object in doc.
func memberOf(doc []byte, object span, name []byte) (value, entry span, found bool) {
	for i := skipSpace(doc, object.start+1); doc[i] != '}'; {
		key := span{i, skipString(doc, i)}
		i = skipSpace(doc, skipSpace(doc, key.end)+1) // past the colon
		value = span{i, skipValue(doc, i)}
		if bytes.Equal(doc[key.start+1:key.end-1], name) {
			return value, span{key.start, value.end}, true
		}
		if i = skipSpace(doc, value.end); doc[i] == ',' {
			i = skipSpace(doc, i+1)
		}
	}
	return value, entry, false
}

// locateExisting is locate where a path that leads nowhere is an error.
func locateExisting(doc []byte, path []Elem) (match, memd.StatusCode) {
	m, status := locate(doc, path)
	if status == memd.StatusSuccess && !m.found {
		status = memd.StatusSubDocPathNotFound
	}
	return m, status
}

// Find returns what path leads to in doc.
func Find(doc []byte, path []Elem) ([]byte, memd.StatusCode) {
	m, status := locateExisting(doc, path)
	if status != memd.StatusSuccess {
		return nil, status
	}
	return doc[m.value.start:m.value.end], status
}

// Member returns the value of the member of that name in object, without regard to
// what the name would mean in a path.
func Member(object, name []byte) ([]byte, memd.StatusCode) {
	return Find(object, []Elem{{name: name}})
}

// Count is the number of elements or members of a container, and false for what is
// none.
func Count(container []byte) (n int, ok bool) {
	if container[0] != '[' && container[0] != '{' {
		return 0, false
	}
	i := skipSpace(container, 1)
	for container[i] != ']' && container[i] != '}' {
		if container[0] == '{' {
			i = skipSpace(container, skipSpace(container, skipString(container, i))+1)
		}
		n++
		if i = skipSpace(container, skipValue(container, i)); container[i] == ',' {
			i = skipSpace(container, i+1)
		}
	}
	return n, true
}

// Names are the names of an object's members, in quotes.
func Names(object []byte) (names [][]byte) {
	for i := skipSpace(object, 1); object[i] != '}'; {
		end := skipString(object, i)
		names = append(names, object[i:end])
		i = skipSpace(object, skipValue(object, skipSpace(object, skipSpace(object, end)+1)))
		if object[i] == ',' {
			i = skipSpace(object, i+1)
		}
	}
	return names
}

// The functions below trust their input: it is JSON that was found valid.

func skipSpace(doc []byte, i int) int {
	for i < len(doc) && (doc[i] == ' ' || doc[i] == '\t' || doc[i] == '\n' || doc[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the end of the string that begins at i.
func skipString(doc []byte, i int) int {
	for i++; doc[i] != '"'; i++ {
		if doc[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the end of the value that begins at i.
func skipValue(doc []byte, i int) int {
	for depth := 0; ; {
		switch doc[i] {
		case '"':
			i = skipString(doc, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
			continue
		default: // a number or a literal
			for i < len(doc) && !isDelimiter(doc[i]) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}

func isDelimiter(b byte) bool {
	switch b {
	case ',', ':', ']', '}', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}
