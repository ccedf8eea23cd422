package jsonpath

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/couchbase/gocbcore/v10/memd"
)

// Edit carries one sub-document mutation out on doc, which is valid JSON and is
// not changed: the new document is made of its parts, so that what the mutation
// does not touch stays as it was written, space and order included. result is
// what the mutation answers, which only a counter does.
func Edit(doc []byte, op memd.SubDocOpType, path []Elem, value []byte, mkdirs bool) (next, result []byte, status memd.StatusCode) {
	switch op {
	case memd.SubDocOpDictAdd, memd.SubDocOpDictSet:
		next, status = editMember(doc, op, path, value, mkdirs)
	case memd.SubDocOpReplace:
		next, status = editReplace(doc, path, value)
	case memd.SubDocOpDelete:
		next, status = editDelete(doc, path)
	case memd.SubDocOpArrayPushFirst, memd.SubDocOpArrayPushLast, memd.SubDocOpArrayAddUnique:
		next, status = editPush(doc, op, path, value, mkdirs)
	case memd.SubDocOpArrayInsert:
		next, status = editArrayInsert(doc, path, value)
	case memd.SubDocOpCounter:
		next, result, status = editCounter(doc, path, value, mkdirs)
	default:
		status = memd.StatusSubDocBadCombo
	}
	return next, result, status
}

func splice(doc []byte, at span, parts ...[]byte) []byte {
	return slices.Concat(append(append([][]byte{doc[:at.start]}, parts...), doc[at.end:])...)
}

// editMember sets a member of an object.
func editMember(doc []byte, op memd.SubDocOpType, path []Elem, value []byte, mkdirs bool) ([]byte, memd.StatusCode) {
	if len(path) == 0 || path[len(path)-1].isIndex {
		return nil, memd.StatusSubDocPathInvalid
	}
	if !json.Valid(value) {
		return nil, memd.StatusSubDocCantInsert
	}
	m, status := locate(doc, path)
	switch {
	case status != memd.StatusSuccess:
		return nil, status
	case !m.found:
		return create(doc, path, m, value, mkdirs)
	case op == memd.SubDocOpDictAdd:
		return nil, memd.StatusSubDocPathExists
	default:
		return splice(doc, m.value, value), memd.StatusSuccess
	}
}

// create puts value where path leads but nothing is yet: into the object that m
// found last, and objects in between if it may make them. Arrays are never made.
func create(doc []byte, path []Elem, m match, value []byte, mkdirs bool) ([]byte, memd.StatusCode) {
	missing := path[m.depth:]
	if len(missing) > 1 && !mkdirs {
		return nil, memd.StatusSubDocPathNotFound
	}
	var head, tail []byte
	for i, e := range missing {
		if e.isIndex {
			return nil, memd.StatusSubDocPathNotFound
		}
		if i > 0 {
			head, tail = append(head, '{'), append(tail, '}')
		}
		head = append(append(head, quoted(e.name)...), ':')
	}
	return insertAtEnd(doc, m.last, slices.Concat(head, value, tail)), memd.StatusSuccess
}

// insertAtEnd puts text behind the last entry of a container.
func insertAtEnd(doc []byte, container span, text []byte) []byte {
	closing := container.end - 1
	var comma []byte
	if n, _ := Count(doc[container.start:container.end]); n > 0 {
		comma = []byte(",")
	}
	return splice(doc, span{closing, closing}, comma, text)
}

func editReplace(doc []byte, path []Elem, value []byte) ([]byte, memd.StatusCode) {
	if len(path) == 0 {
		return nil, memd.StatusSubDocPathInvalid
	}
	if !json.Valid(value) {
		return nil, memd.StatusSubDocCantInsert
	}
	m, status := locateExisting(doc, path)
	if status != memd.StatusSuccess {
		return nil, status
	}
	return splice(doc, m.value, value), memd.StatusSuccess
}

// editDelete takes an entry out of its container, with one of the commas beside
// it.
func editDelete(doc []byte, path []Elem) ([]byte, memd.StatusCode) {
	if len(path) == 0 {
		return nil, memd.StatusSubDocPathInvalid
	}
	m, status := locateExisting(doc, path)
	if status != memd.StatusSuccess {
		return nil, status
	}
	cut := m.entry
	if after := skipSpace(doc, cut.end); doc[after] == ',' {
		cut.end = skipSpace(doc, after+1)
	} else if before := bytes.LastIndexByte(doc[m.container.start:cut.start], ','); before >= 0 && onlySpace(doc[m.container.start+before+1:cut.start]) {
		cut.start = m.container.start + before
	}
	return splice(doc, cut), memd.StatusSuccess
}

func onlySpace(b []byte) bool { return skipSpace(b, 0) == len(b) }

// validElements says whether value is one JSON value or several with commas
// between.
func validElements(value []byte) bool {
	return len(bytes.TrimSpace(value)) > 0 && json.Valid(slices.Concat([]byte("["), value, []byte("]")))
}

func editPush(doc []byte, op memd.SubDocOpType, path []Elem, value []byte, mkdirs bool) ([]byte, memd.StatusCode) {
	unique := op == memd.SubDocOpArrayAddUnique
	if !validElements(value) || unique && !isPrimitive(value) {
		return nil, memd.StatusSubDocCantInsert
	}
	m, status := locate(doc, path)
	switch {
	case status != memd.StatusSuccess:
		return nil, status
	case !m.found:
		if !mkdirs {
			return nil, memd.StatusSubDocPathNotFound
		}
		return create(doc, path, m, slices.Concat([]byte("["), value, []byte("]")), mkdirs)
	case doc[m.value.start] != '[':
		return nil, memd.StatusSubDocPathMismatch
	}
	if unique {
		if status := checkUnique(doc, m.value, value); status != memd.StatusSuccess {
			return nil, status
		}
	}
	if op != memd.SubDocOpArrayPushFirst {
		return insertAtEnd(doc, m.value, value), memd.StatusSuccess
	}
	at := m.value.start + 1
	var comma []byte
	if n, _ := Count(doc[m.value.start:m.value.end]); n > 0 {
		comma = []byte(",")
	}
	return splice(doc, span{at, at}, value, comma), memd.StatusSuccess
}

// isPrimitive says whether value is one JSON value and not a container.
func isPrimitive(value []byte) bool {
	v := bytes.TrimSpace(value)
	return json.Valid(v) && v[0] != '{' && v[0] != '['
}

// checkUnique compares as the server does, byte for byte, and refuses arrays
// that hold containers.
func checkUnique(doc []byte, array span, value []byte) memd.StatusCode {
	value = bytes.TrimSpace(value)
	for i := skipSpace(doc, array.start+1); doc[i] != ']'; {
		if doc[i] == '{' || doc[i] == '[' {
			return memd.StatusSubDocPathMismatch
		}
		end := skipValue(doc, i)
		if bytes.Equal(doc[i:end], value) {
			return memd.StatusSubDocPathExists
		}
		if i = skipSpace(doc, end); doc[i] == ',' {
			i = skipSpace(doc, i+1)
		}
	}
	return memd.StatusSuccess
}

func editArrayInsert(doc []byte, path []Elem, value []byte) ([]byte, memd.StatusCode) {
	if len(path) == 0 {
		return nil, memd.StatusSubDocPathInvalid
	}
	at := path[len(path)-1]
	if !at.isIndex || at.index == lastElement {
		return nil, memd.StatusSubDocPathInvalid
	}
	if !validElements(value) {
		return nil, memd.StatusSubDocCantInsert
	}
	m, status := locateExisting(doc, path[:len(path)-1])
	if status != memd.StatusSuccess {
		return nil, status
	}
	if doc[m.value.start] != '[' {
		return nil, memd.StatusSubDocPathMismatch
	}
	n, _ := Count(doc[m.value.start:m.value.end])
	switch {
	case at.index > n:
		return nil, memd.StatusSubDocPathNotFound
	case at.index == n:
		return insertAtEnd(doc, m.value, value), memd.StatusSuccess
	}
	next, _ := elementAt(doc, m.value, at.index)
	return splice(doc, span{next.start, next.start}, value, []byte(",")), memd.StatusSuccess
}

// editCounter adds a signed delta to a number.
func editCounter(doc []byte, path []Elem, value []byte, mkdirs bool) (next, result []byte, status memd.StatusCode) {
	delta, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || delta == 0 {
		return nil, nil, memd.StatusSubDocBadDelta
	}
	if len(path) == 0 {
		return nil, nil, memd.StatusSubDocPathInvalid
	}
	m, status := locate(doc, path)
	if status != memd.StatusSuccess {
		return nil, nil, status
	}
	if !m.found {
		result = strconv.AppendInt(nil, delta, 10)
		next, status = create(doc, path, m, result, mkdirs)
		return next, result, status
	}
	old := doc[m.value.start:m.value.end]
	if old[0] != '-' && (old[0] < '0' || old[0] > '9') || bytes.ContainsAny(old, ".eE") {
		return nil, nil, memd.StatusSubDocPathMismatch
	}
	n, err := strconv.ParseInt(string(old), 10, 64)
	if err != nil {
		return nil, nil, memd.StatusSubDocBadRange
	}
	if delta > 0 && n > math.MaxInt64-delta || delta < 0 && n < math.MinInt64-delta {
		return nil, nil, memd.StatusSubDocCantInsert
	}
	result = strconv.AppendInt(nil, n+delta, 10)
	return splice(doc, m.value, result), result, memd.StatusSuccess
}
