// Package jsonpath finds, counts and edits parts of a JSON document by the paths of
// Couchbase's sub-document operations, with the server's statuses. Documents must be
// valid JSON; none is ever changed in place.
package jsonpath

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/couchbase/gocbcore/v10/memd"
)

// MaxLen is how many bytes a path may have, maxComponents how many components, as on
// the server.
const (
	MaxLen        = 1024
	maxComponents = 31
)

// Elem is one component of a path: a name in an object or an index into an array.
type Elem struct {
	name    []byte // as it stands in the document, JSON escapes and all
	index   int    // lastElement, or from 0
	isIndex bool
}

const lastElement = -1

// Name is the component as a name, empty for an index.
func (e Elem) Name() string { return string(e.name) }

// Parse appends the components of a path to elems: names with dots between,
// indexes in brackets, and in a name between backticks all that would otherwise
// mean something; two backticks there are one.
func Parse(elems []Elem, path []byte) ([]Elem, memd.StatusCode) {
	if len(path) > MaxLen {
		return nil, memd.StatusInvalidArgs
	}
	for i := 0; i < len(path); {
		if len(elems) == maxComponents {
			return nil, memd.StatusSubDocPathTooBig
		}
		var e Elem
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

func parseIndex(path []byte, i int) (e Elem, next int, ok bool) {
	end := bytes.IndexByte(path[i:], ']')
	if end < 0 {
		return e, 0, false
	}
	text := path[i+1 : i+end]
	next = i + end + 1
	if string(text) == "-1" {
		return Elem{index: lastElement, isIndex: true}, next, true
	}
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil {
		return e, 0, false
	}
	return Elem{index: int(n), isIndex: true}, next, true
}

func parseName(path []byte, i int) (e Elem, next int, ok bool) {
	if path[i] != '`' {
		start := i
		for i < len(path) && path[i] != '.' && path[i] != '[' {
			if path[i] == ']' || path[i] == '`' {
				return e, 0, false
			}
			i++
		}
		return Elem{name: path[start:i]}, i, i > start && validName(path[start:i])
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
		return Elem{name: name}, i + 1, len(name) > 0 && validName(name)
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
