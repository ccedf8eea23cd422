package couchbasetest

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/couchbase/gocbcore/v10/memd"
)

// Limits of a sub-document path, as on the server.
const (
	maxPathLen        = 1024
	maxPathComponents = 32
)

// pathElem is one component of a path: a name in an object or an index into an
// array.
type pathElem struct {
	name    []byte // as it stands in the document, JSON escapes and all
	index   int    // lastElement, or from 0
	isIndex bool
}

const lastElement = -1

// parsePath appends the components of a path to elems: names with dots between,
// indexes in brackets, and in a name between backticks all that would otherwise
// mean something; two backticks there are one.
func parsePath(elems []pathElem, path []byte) ([]pathElem, memd.StatusCode) {
	if len(path) > maxPathLen {
		return nil, memd.StatusInvalidArgs
	}
	for i := 0; i < len(path); {
		if len(elems) == maxPathComponents {
			return nil, memd.StatusSubDocPathTooBig
		}
		var e pathElem
		var ok bool
		if path[i] == '[' {
			e, i, ok = parseIndex(path, i)
		} else {
			e, i, ok = parseName(path, i)
		}
		if !ok {
			return nil, memd.StatusSubDocPathInvalid
		}
		elems = append(elems, e)
		if i == len(path) {
			break
		}
		switch path[i] {
		case '[':
		case '.':
			if i++; i == len(path) || path[i] == '[' {
				return nil, memd.StatusSubDocPathInvalid
			}
		default:
			return nil, memd.StatusSubDocPathInvalid
		}
	}
	return elems, memd.StatusSuccess
}

func parseIndex(path []byte, i int) (e pathElem, next int, ok bool) {
	end := bytes.IndexByte(path[i:], ']')
	if end < 0 {
		return e, 0, false
	}
	text := path[i+1 : i+end]
	next = i + end + 1
	if string(text) == "-1" {
		return pathElem{index: lastElement, isIndex: true}, next, true
	}
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil {
		return e, 0, false
	}
	return pathElem{index: int(n), isIndex: true}, next, true
}

func parseName(path []byte, i int) (e pathElem, next int, ok bool) {
	if path[i] != '`' {
		start := i
		for i < len(path) && path[i] != '.' && path[i] != '[' {
			if path[i] == ']' || path[i] == '`' {
				return e, 0, false
			}
			i++
		}
		return pathElem{name: path[start:i]}, i, i > start && validName(path[start:i])
	}
	var name []byte
	for i++; i < len(path); i++ {
		if path[i] != '`' {
			name = append(name, path[i])
			continue
		}
		if i+1 < len(path) && path[i+1] == '`' {
			name = append(name, '`')
			i++
			continue
		}
		return pathElem{name: name}, i + 1, len(name) > 0 && validName(name)
	}
	return e, 0, false
}

// validName says whether name can stand between quotes in JSON.
func validName(name []byte) bool {
	for _, b := range name {
		if b < 0x20 || b == '"' || b == '\\' || b >= 0x80 {
			return json.Valid(quoted(name))
		}
	}
	return true
}

func quoted(name []byte) []byte {
	b := make([]byte, 0, len(name)+2)
	return append(append(append(b, '"'), name...), '"')
}

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
// document does not have is no error; one that cannot be, is.
func locate(doc []byte, path []pathElem) (match, memd.StatusCode) {
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

// countOf is the number of elements or members of a container.
func countOf(doc []byte, in span) (n int, ok bool) {
	first := doc[in.start]
	if first != '[' && first != '{' {
		return 0, false
	}
	i := skipSpace(doc, in.start+1)
	for doc[i] != ']' && doc[i] != '}' {
		if first == '{' {
			i = skipSpace(doc, skipSpace(doc, skipString(doc, i))+1)
		}
		n++
		if i = skipSpace(doc, skipValue(doc, i)); doc[i] == ',' {
			i = skipSpace(doc, i+1)
		}
	}
	return n, true
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
