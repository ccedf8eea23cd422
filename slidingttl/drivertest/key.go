package drivertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// invalid wants err to be an *InvalidError that names the key.
func (t *trial) invalid(when string, err error) {
	var invalid *driver.InvalidError
	switch {
	case !errors.As(err, &invalid):
		t.Errorf("%s: the error is %v; want a *driver.InvalidError", when, err)
	case !errors.Is(err, driver.ErrInvalid):
		t.Errorf("%s: the error does not match driver.ErrInvalid: %v", when, err)
	case invalid.Field != "key" || invalid.Value == "" || invalid.Rule == "":
		t.Errorf("%s: the error has field %q, value %q, rule %q; want the field \"key\", and a value and a rule", when, invalid.Field, invalid.Value, invalid.Rule)
	}
}

// forbidden reports whether the store cannot hold a key, and wants every call to say so.
func (t *trial) forbidden(key string) bool {
	if t.b.Takes == nil || t.b.Takes(key) {
		return false
	}
	was := driver.Meta{Life: t.life(time.Hour), Version: 1}
	for _, op := range t.ops() {
		err := op.call(t.ctx, key, was)
		t.invalid(op.name+" of a key that the store cannot hold", err)
		t.quiet(op.name+" of a key that the store cannot hold", err)
	}
	return true
}

// longestKey is the length of the longest key that a case writes.
func (t *trial) longestKey() int {
	if t.b.MaxKey == 0 {
		return 4096
	}
	return t.b.MaxKey
}

var keyCases = []testCase{{
	name:        "key/empty",
	explanation: "An empty key is a caller's mistake, and an *InvalidError in every call: as a record it would be shared by all who make it.",
	run: func(t *trial) {
		was := driver.Meta{Life: t.life(time.Hour), Version: 1}
		for _, op := range t.ops() {
			t.invalid(op.name+" of an empty key", op.call(t.ctx, "", was))
		}
	},
}, {
	name:        "key/limit",
	explanation: "A key as long as the store takes must work, and one byte more must be an *InvalidError in every call: a key cut short is somebody else's record.",
	run: func(t *trial) {
		most := t.longestKey()
		long := func(n int) string { return t.prefix + strings.Repeat("k", n-len(t.prefix)) }
		e := t.insert(long(most), 1, t.life(time.Hour))
		t.stored(fmt.Sprintf("a key of %d bytes", most), long(most), e)
		short := t.insert(long(most-1), 2, t.life(time.Hour))
		t.stored("a key one byte shorter", long(most-1), short)
		t.touched("Touch of the longest key", long(most), e, t.later(e.Life, time.Hour))
		if t.b.MaxKey == 0 {
			return
		}
		for _, op := range t.ops() {
			err := op.call(t.ctx, long(most+1), e.Meta)
			t.invalid(fmt.Sprintf("%s of a key of %d bytes", op.name, most+1), err)
			t.quiet(op.name+" of a key over the limit", err)
		}
	},
}, {
	name:        "key/any-text",
	explanation: "Keys are bytes to their users: no two may mean one record, and none may be taken for syntax. Somebody would read another's session.",
	run: func(t *trial) {
		keys := []string{
			"a", "A", " a", "a ", "a\t", "a/b", "a//b", "a/./b", "../a", "a%2Fb", "a:b", "a#b", "a?b=c&d", "a*", "[a]", "a|b",
			`a"b`, "a'b", "a`b", `a\b`, "a{b}", "$a", "a.b", "a,b", "<a>", "a;--", "日本語", "🙂", "a\u200bb", "a\ufeff",
			"é" /* one code point */, "e\u0301" /* two */, "ß", "ss", "ı", "i", "I",
		}
		keys = slices.DeleteFunc(keys, func(k string) bool { return t.forbidden(t.key(k)) })
		entries := make(map[string]driver.Entry[Value])
		for i, k := range keys {
			entries[k] = t.insert(t.key(k), i, t.life(time.Hour))
		}
		for _, k := range keys {
			t.stored(fmt.Sprintf("key ending in %q", k), t.key(k), entries[k])
		}
		for _, k := range keys {
			t.touched(fmt.Sprintf("Touch of a key ending in %q", k), t.key(k), entries[k], t.later(entries[k].Life, time.Hour))
			t.ok(fmt.Sprintf("Delete of a key ending in %q", k), t.d.Delete(t.ctx, t.key(k)))
			t.absent(fmt.Sprintf("after Delete of a key ending in %q", k), t.key(k))
		}
	},
}, {
	name:        "key/any-bytes",
	explanation: "A key of bytes that the store cannot hold (control characters, invalid UTF-8) must be an *InvalidError. Bytes that are dropped or replaced on the way make two keys one record.",
	run: func(t *trial) {
		entries := make(map[string]driver.Entry[Value])
		for i, k := range []string{"\x00", "\x00\x00", "\x01", "\n", "\r\n", "\x7f", "\xff", "\xfe", "\xc3", "\xed\xa0\x80", "\ufffd", "\xff\xff"} {
			l := t.life(time.Hour)
			version, err := t.d.Insert(t.ctx, t.key(k), value(i), l, t.now())
			switch {
			case err == nil:
				entries[k] = driver.Entry[Value]{Value: value(i), Meta: driver.Meta{Life: l, Version: version}}
			case errors.Is(err, driver.ErrInvalid):
				t.invalid(fmt.Sprintf("Insert of a key ending in %q", k), err)
				_, err = t.d.Get(t.ctx, t.key(k))
				t.invalid(fmt.Sprintf("Get of a key ending in %q, which Insert called invalid", k), err)
			default:
				t.Errorf("Insert of a key ending in %q (valid UTF-8: %v): %v; want it stored, or a *driver.InvalidError", k, utf8.ValidString(k), err)
			}
		}
		for k, e := range entries {
			t.stored(fmt.Sprintf("key ending in %q", k), t.key(k), e)
		}
	},
}, {
	name:        "key/secret",
	explanation: "Keys are often session tokens: one in an error's text ends up in logs, where it lets the reader in.",
	run: func(t *trial) {
		live, dead := t.key("live"), t.key("dead")
		t.insert(dead, 1, t.life(time.Minute))
		t.advance(time.Hour)
		e := t.insert(live, 1, t.life(time.Hour))
		ended, cancel := t.ended()
		defer cancel()
		other := e.Meta
		other.CreatedAt -= 1000
		other.Version++
		for _, op := range t.ops() {
			t.quiet(op.name+" of an absent key", op.call(t.ctx, t.key("absent"), e.Meta))
			t.quiet(op.name+" with a context that has ended", op.call(ended, t.key("absent"), e.Meta))
			if op.name == "Delete" || op.name == "Upsert" {
				continue
			}
			t.quiet(op.name+" of a dead record", op.call(t.ctx, dead, e.Meta))
			t.quiet(op.name+" planned for another record", op.call(t.ctx, live, other))
		}
	},
}}
