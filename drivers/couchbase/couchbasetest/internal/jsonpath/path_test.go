package jsonpath

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/couchbase/gocbcore/v10/memd"
)

func TestPaths(t *testing.T) {
	type elems = []Elem
	name := func(s string) Elem { return Elem{name: []byte(s)} }
	index := func(i int) Elem { return Elem{index: i, isIndex: true} }
	for _, tt := range []struct {
		path string
		want elems // nil: invalid
	}{
		{"", elems{}},
		{"a", elems{name("a")}},
		{"a.b.c", elems{name("a"), name("b"), name("c")}},
		{"a[0].b[-1]", elems{name("a"), index(0), name("b"), index(-1)}},
		{"[3][4]", elems{index(3), index(4)}},
		{"`a.b[0]`.c", elems{name("a.b[0]"), name("c")}},
		{"`a``b`", elems{name("a`b")}},
		{`a\"b`, elems{name(`a\"b`)}},
		{"a b", elems{name("a b")}},
		{"ä", elems{name("ä")}},
		{".a", nil},
		{"a.", nil},
		{"a..b", nil},
		{"a[", nil},
		{"a[]", nil},
		{"a[b]", nil},
		{"a[-2]", nil},
		{"a[99999999999]", nil},
		{"a]", nil},
		{"a.[0]", nil},
		{"a[0]b", nil},
		{"`a", nil},
		{"``", nil},
		{"`a`b", nil},
		{"a`b", nil},
		{`a"b`, nil},
		{`a\`, nil},
		{"a\nb", nil},
	} {
		got, status := Parse(nil, []byte(tt.path))
		if tt.want == nil {
			if status != memd.StatusSubDocPathInvalid {
				t.Errorf("%q: %v %v, want it refused", tt.path, got, status)
			}
			continue
		}
		if status != memd.StatusSuccess || len(got) != len(tt.want) {
			t.Errorf("%q: %v %v, want %v", tt.path, got, status, tt.want)
			continue
		}
		for i := range got {
			if got[i].isIndex != tt.want[i].isIndex || got[i].index != tt.want[i].index || string(got[i].name) != string(tt.want[i].name) {
				t.Errorf("%q: component %d is %+v, want %+v", tt.path, i, got[i], tt.want[i])
			}
		}
	}
	if _, status := Parse(nil, []byte(strings.Repeat("a.", 31)+"a")); status != memd.StatusSubDocPathTooBig {
		t.Errorf("32 components: %v", status)
	}
	if _, status := Parse(nil, []byte(strings.Repeat("a", MaxLen+1))); status != memd.StatusInvalidArgs {
		t.Errorf("1,025 bytes: %v", status)
	}
}

const libraryDoc = ` { "name" : "Tickle" , "n":-7, "big": 12345678901234567890, "pi":3.14,
  "tags":["a","b" , 3], "objs":[{"x":1},{"y":[ ]}], "empty":{ }, "dot.ted":true, "q\"uote":null, "s":"}]," } `

func TestLocate(t *testing.T) {
	for _, tt := range []struct {
		path string
		want string
		err  memd.StatusCode
	}{
		{"", strings.TrimSpace(libraryDoc), 0},
		{"name", `"Tickle"`, 0},
		{"n", `-7`, 0},
		{"tags", `["a","b" , 3]`, 0},
		{"tags[1]", `"b"`, 0},
		{"tags[-1]", `3`, 0},
		{"objs[1].y", `[ ]`, 0},
		{"objs[1].y[-1]", "", memd.StatusSubDocPathNotFound},
		{"objs[0].x", `1`, 0},
		{"`dot.ted`", `true`, 0},
		{`q\"uote`, `null`, 0},
		{"s", `"}],"`, 0},
		{"empty", `{ }`, 0},
		{"missing", "", memd.StatusSubDocPathNotFound},
		{"missing.more", "", memd.StatusSubDocPathNotFound},
		{"tags[3]", "", memd.StatusSubDocPathNotFound},
		{"tags.a", "", memd.StatusSubDocPathMismatch},
		{"empty[0]", "", memd.StatusSubDocPathMismatch},
		{"name.x", "", memd.StatusSubDocPathMismatch},
		{"name[0]", "", memd.StatusSubDocPathMismatch},
	} {
		path, _ := Parse(nil, []byte(tt.path))
		m, status := locateExisting([]byte(libraryDoc), path)
		if status != tt.err {
			t.Errorf("%q: status %v, want %v", tt.path, status, tt.err)
			continue
		}
		if got := libraryDoc[m.value.start:m.value.end]; status == 0 && got != tt.want {
			t.Errorf("%q: %s, want %s", tt.path, got, tt.want)
		}
	}
}

func TestEdit(t *testing.T) {
	const (
		add, set, replace, remove = memd.SubDocOpDictAdd, memd.SubDocOpDictSet, memd.SubDocOpReplace, memd.SubDocOpDelete
		first, last, insert       = memd.SubDocOpArrayPushFirst, memd.SubDocOpArrayPushLast, memd.SubDocOpArrayInsert
		unique, counter           = memd.SubDocOpArrayAddUnique, memd.SubDocOpCounter
	)
	for _, tt := range []struct {
		doc    string
		op     memd.SubDocOpType
		path   string
		value  string
		mkdirs bool
		want   string
		err    memd.StatusCode
	}{
		{doc: `{}`, op: set, path: "a", value: `1`, want: `{"a":1}`},
		{doc: `{"a":1}`, op: set, path: "b", value: `2`, want: `{"a":1,"b":2}`},
		{doc: `{ "a" : 1 , "b":2 }`, op: set, path: "a", value: `[3]`, want: `{ "a" : [3] , "b":2 }`},
		{doc: `{"a":{}}`, op: set, path: "a.b.c", value: `1`, err: memd.StatusSubDocPathNotFound},
		{doc: `{"a":{}}`, op: set, path: "a.b.c", value: `1`, mkdirs: true, want: `{"a":{"b":{"c":1}}}`},
		{doc: `{}`, op: set, path: "a[0].b", value: `1`, mkdirs: true, err: memd.StatusSubDocPathNotFound},
		{doc: `{"a":[]}`, op: set, path: "a[0].b", value: `1`, mkdirs: true, err: memd.StatusSubDocPathNotFound},
		{doc: `{"a":[{}]}`, op: set, path: "a[0].b", value: `1`, want: `{"a":[{"b":1}]}`},
		{doc: `{"a":1}`, op: set, path: "a.b", value: `1`, mkdirs: true, err: memd.StatusSubDocPathMismatch},
		{doc: `[1]`, op: set, path: "[0]", value: `2`, err: memd.StatusSubDocPathInvalid},
		{doc: `{}`, op: set, path: "a", value: `nope`, err: memd.StatusSubDocCantInsert},
		{doc: `{}`, op: set, path: "a", value: `1,2`, err: memd.StatusSubDocCantInsert},
		{doc: `{}`, op: set, path: "`a.b`", value: `1`, want: `{"a.b":1}`},
		{doc: `{"a":1}`, op: add, path: "a", value: `2`, err: memd.StatusSubDocPathExists},
		{doc: `{"a":1}`, op: add, path: "b", value: `2`, want: `{"a":1,"b":2}`},

		{doc: `{"a":1}`, op: replace, path: "a", value: `2`, want: `{"a":2}`},
		{doc: `{"a":1}`, op: replace, path: "b", value: `2`, err: memd.StatusSubDocPathNotFound},
		{doc: `[1,2]`, op: replace, path: "[-1]", value: `{}`, want: `[1,{}]`},
		{doc: `{"a":1}`, op: replace, path: "a", value: `}`, err: memd.StatusSubDocCantInsert},

		{doc: `{"a":1}`, op: remove, path: "a", want: `{}`},
		{doc: `{ "a":1 , "b":2 }`, op: remove, path: "a", want: `{ "b":2 }`},
		{doc: `{"a":1, "b":2}`, op: remove, path: "b", want: `{"a":1}`},
		{doc: `[1,2,3]`, op: remove, path: "[1]", want: `[1,3]`},
		{doc: `[1,2,3]`, op: remove, path: "[-1]", want: `[1,2]`},
		{doc: `["a,",[1]]`, op: remove, path: "[1][0]", want: `["a,",[]]`},
		{doc: `{"a":1}`, op: remove, path: "b", err: memd.StatusSubDocPathNotFound},

		{doc: `[]`, op: last, value: `1`, want: `[1]`},
		{doc: `[1]`, op: last, value: `2,3`, want: `[1,2,3]`},
		{doc: `[1]`, op: first, value: `2,3`, want: `[2,3,1]`},
		{doc: `[ ]`, op: first, value: `1`, want: `[1 ]`},
		{doc: `{"a":[1]}`, op: last, path: "a", value: `2`, want: `{"a":[1,2]}`},
		{doc: `{}`, op: last, path: "a", value: `1`, err: memd.StatusSubDocPathNotFound},
		{doc: `{}`, op: last, path: "a.b", value: `1`, mkdirs: true, want: `{"a":{"b":[1]}}`},
		{doc: `{}`, op: last, value: `1`, err: memd.StatusSubDocPathMismatch},
		{doc: `[]`, op: last, value: ` `, err: memd.StatusSubDocCantInsert},
		{doc: `[]`, op: last, value: `1]`, err: memd.StatusSubDocCantInsert},

		{doc: `[1,3]`, op: insert, path: "[1]", value: `2`, want: `[1,2,3]`},
		{doc: `[1]`, op: insert, path: "[1]", value: `2`, want: `[1,2]`},
		{doc: `[]`, op: insert, path: "[0]", value: `1`, want: `[1]`},
		{doc: `[1]`, op: insert, path: "[2]", value: `2`, err: memd.StatusSubDocPathNotFound},
		{doc: `[1]`, op: insert, path: "[-1]", value: `2`, err: memd.StatusSubDocPathInvalid},
		{doc: `{"a":1}`, op: insert, path: "a", value: `2`, err: memd.StatusSubDocPathInvalid},
		{doc: `{"a":1}`, op: insert, path: "a[0]", value: `2`, err: memd.StatusSubDocPathMismatch},

		{doc: `[1,"1"]`, op: unique, value: `2`, want: `[1,"1",2]`},
		{doc: `[1, "1" ]`, op: unique, value: `"1"`, err: memd.StatusSubDocPathExists},
		{doc: `[1]`, op: unique, value: `[2]`, err: memd.StatusSubDocCantInsert},
		{doc: `[[1]]`, op: unique, value: `2`, err: memd.StatusSubDocPathMismatch},
		{doc: `{}`, op: unique, path: "a", value: `1`, mkdirs: true, want: `{"a":[1]}`},

		{doc: `{"n":1}`, op: counter, path: "n", value: `41`, want: `{"n":42}`},
		{doc: `{"n":1}`, op: counter, path: "n", value: `-2`, want: `{"n":-1}`},
		{doc: `{}`, op: counter, path: "n", value: `5`, want: `{"n":5}`},
		{doc: `{}`, op: counter, path: "a.n", value: `5`, err: memd.StatusSubDocPathNotFound},
		{doc: `{}`, op: counter, path: "a.n", value: `5`, mkdirs: true, want: `{"a":{"n":5}}`},
		{doc: `[7]`, op: counter, path: "[0]", value: `1`, want: `[8]`},
		{doc: `{"n":1}`, op: counter, path: "n", value: `0`, err: memd.StatusSubDocBadDelta},
		{doc: `{"n":1}`, op: counter, path: "n", value: `x`, err: memd.StatusSubDocBadDelta},
		{doc: `{"n":"1"}`, op: counter, path: "n", value: `1`, err: memd.StatusSubDocPathMismatch},
		{doc: `{"n":1.5}`, op: counter, path: "n", value: `1`, err: memd.StatusSubDocPathMismatch},
		{doc: `{"n":9223372036854775808}`, op: counter, path: "n", value: `1`, err: memd.StatusSubDocBadRange},
		{doc: `{"n":9223372036854775807}`, op: counter, path: "n", value: `1`, err: memd.StatusSubDocCantInsert},
		{doc: `{"n":-9223372036854775808}`, op: counter, path: "n", value: `-1`, err: memd.StatusSubDocCantInsert},
	} {
		path, status := Parse(nil, []byte(tt.path))
		if status != memd.StatusSuccess {
			t.Errorf("path %q: %v", tt.path, status)
			continue
		}
		got, _, status := Edit([]byte(tt.doc), tt.op, path, []byte(tt.value), tt.mkdirs)
		if status != tt.err || string(got) != tt.want {
			t.Errorf("%#x %s at %q of %s: %s (%v), want %s (%v)", tt.op, tt.value, tt.path, tt.doc, got, status, tt.want, tt.err)
		}
	}
}

func FuzzEdit(f *testing.F) {
	f.Add(libraryDoc, byte(memd.SubDocOpDictSet), "a.b", `{"c":[1]}`, true)
	f.Add(`[1,[2,{"a":""}]]`, byte(memd.SubDocOpDelete), "[1][-1].a", ``, false)
	f.Add(`{"a":[]}`, byte(memd.SubDocOpArrayInsert), "a[0]", `1,2`, false)
	f.Add(`{"n":5}`, byte(memd.SubDocOpCounter), "n", `-7`, false)
	f.Fuzz(func(t *testing.T, doc string, op byte, rawPath, value string, mkdirs bool) {
		if !json.Valid([]byte(doc)) {
			return
		}
		path, status := Parse(nil, []byte(rawPath))
		if status != memd.StatusSuccess {
			return
		}
		in := []byte(doc)
		got, _, status := Edit(in, memd.SubDocOpType(op), path, []byte(value), mkdirs)
		if string(in) != doc {
			t.Error("the document was changed in place")
		}
		if status == memd.StatusSuccess && !json.Valid(got) {
			t.Errorf("%#x %q at %q of %q made %q", op, value, rawPath, doc, got)
		}
	})
}
