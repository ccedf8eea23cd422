package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var batchCases = []testCase{{
	name:        "batch/mixed",
	explanation: "GetMulti must return what Get would for each key, alive or dead, and leave out absent keys.",
	run: func(t *trial) {
		want := map[string]driver.Entry[Value]{
			t.key("a"): t.insert(t.key("a"), 1, t.life(time.Hour)),
			t.key("b"): t.insert(t.key("b"), 2, t.life(2*time.Hour)),
		}
		t.insert(t.key("gone"), 3, t.life(time.Hour))
		t.ok("Delete", t.d.Delete(t.ctx, t.key("gone")))
		keys := []string{t.key("never"), t.key("b"), t.key("a"), t.key("gone"), t.key("a")}
		t.batch("present and absent keys", keys, want)
		t.advance(90 * time.Minute) // a is dead to its caller now
		t.batch("keys one of which is dead", keys, want)
		t.batch("absent keys only", []string{t.key("never")}, nil)
		t.batch("no keys", nil, nil)
	},
}, {
	name:        "batch/many",
	explanation: "GetMulti must return every record, however many keys it is given. Stores limit a batch by keys and by bytes, and return the remaining keys unread.",
	run: func(t *trial) {
		const n = 230
		want := make(map[string]driver.Entry[Value], n)
		keys := make([]string, n)
		for i := range keys {
			keys[i] = t.key(fmt.Sprint(i))
		}
		entries := make([]driver.Entry[Value], n)
		const at = 10
		t.together(at, func(first int) {
			for i := first; i < n; i += at {
				entries[i] = t.insert(keys[i], i, t.life(time.Hour))
			}
		})
		for i, k := range keys {
			want[k] = entries[i]
		}
		t.batch("many keys", keys, want)
	},
}, {
	name:        "batch/foreign",
	explanation: "GetMulti must return another program's record without created_at, as Get does.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		want := map[string]driver.Entry[Value]{
			t.key("a"): t.plant(t.key("a"), 1, driver.Life{}),
			t.key("b"): t.insert(t.key("b"), 2, t.life(time.Hour)),
		}
		t.batch("a record without created_at", []string{t.key("a"), t.key("b")}, want)
	},
}, {
	name:        "batch/invalid-key",
	explanation: "A key that the store cannot take must be in a driver.KeyErrors, by its first index, and the other keys must be read. Otherwise one bad key hides a hundred records, or counts as absent.",
	run: func(t *trial) {
		want := map[string]driver.Entry[Value]{
			t.key("a"): t.insert(t.key("a"), 1, t.life(time.Hour)),
			t.key("b"): t.insert(t.key("b"), 2, t.life(time.Hour)),
		}
		if err := t.partly("an empty key", []string{t.key("a"), "", t.key("b"), ""}, want, 1); err != nil {
			t.invalid("GetMulti with an empty key", err)
		}
	},
}, {
	name:        "batch/malformed",
	explanation: "A record that the driver cannot read must be in a driver.KeyErrors, by its index, and the others must be read. Otherwise one bad record hides a hundred.",
	needs:       []Feature{Malform},
	run: func(t *trial) {
		want := map[string]driver.Entry[Value]{
			t.key("a"): t.insert(t.key("a"), 1, t.life(time.Hour)),
			t.key("b"): t.insert(t.key("b"), 2, t.life(time.Hour)),
		}
		t.ok("Backend.Malform", t.b.Malform(t.ctx, t.key("bad"), value(1)))
		t.partly("a record that cannot be read", []string{t.key("a"), t.key("b"), t.key("bad")}, want, 2)
	},
}}

// batch wants GetMulti of keys to return exactly want.
func (t *trial) batch(what string, keys []string, want map[string]driver.Entry[Value]) {
	got, err := driver.GetMulti(t.ctx, t.d, keys)
	t.ok("GetMulti of "+what, err)
	t.read(what, got, want)
}

// partly wants GetMulti of keys to return exactly want, and an *InvalidError for the key
// at that place alone, which it returns.
func (t *trial) partly(what string, keys []string, want map[string]driver.Entry[Value], at int) error {
	got, err := driver.GetMulti(t.ctx, t.d, keys)
	t.read(what, got, want)
	t.quiet("GetMulti of "+what, err)
	failed, ok := err.(driver.KeyErrors)
	if !ok || len(failed) != 1 || failed[0].Index != at || !errors.Is(failed[0], driver.ErrInvalid) {
		t.Errorf("GetMulti of %s: the error is %T %v; want driver.KeyErrors with an *InvalidError for key %d alone", what, err, err, at)
		return nil
	}
	return failed[0]
}

// read wants exactly want from a GetMulti.
func (t *trial) read(what string, got, want map[string]driver.Entry[Value]) {
	for k, e := range want {
		g, ok := got[k]
		if !ok {
			t.Errorf("GetMulti of %s: a record is missing", what)
			continue
		}
		t.same("GetMulti of "+what, g, e)
	}
	if len(got) > len(want) {
		t.Errorf("GetMulti of %s returned %d records; want %d", what, len(got), len(want))
	}
}
