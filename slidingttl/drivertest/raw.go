package drivertest

import (
	"bytes"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func (t *trial) rawReader() driver.RawReader {
	r, _ := driver.As[driver.RawReader](t.d)
	return r
}

// raw wants the record under key in the store's own form, with m.
func (t *trial) raw(when, key string, m driver.Meta) driver.Raw {
	r, err := t.rawReader().Raw(t.ctx, key)
	t.ok(when+": Raw", err)
	if r.Meta != m {
		t.Errorf("%s: Raw returns %s, version %d; want %s, version %d", when, describe(r.Life), r.Version, describe(m.Life), m.Version)
	}
	if r.Format == "" || len(r.Value) == 0 {
		t.Errorf("%s: Raw returns %d bytes of the format %q", when, len(r.Value), r.Format)
	}
	if r.Problem != nil {
		t.Errorf("%s: Raw returns the problem %v", when, r.Problem)
	}
	return r
}

var rawCases = []testCase{{
	name:        "raw/record",
	explanation: "Raw must return the record that is stored, with the life and version that Get returns, dead or alive. Otherwise an archive keeps something else.",
	needs:       []Feature{RawReader},
	run: func(t *trial) {
		key := t.key("a")
		e := t.insert(key, 1, t.life(time.Hour))
		first := t.raw("after Insert", key, e.Meta)
		if len(first.Fields) == 0 {
			t.Errorf("Raw names no field in which the life is kept")
		}
		e = t.touched("Touch", key, e, t.later(e.Life, time.Hour))
		t.raw("after Touch", key, e.Meta)
		e = t.replaced("Replace", key, 2, e.Meta, e.Life)
		if second := t.raw("after Replace", key, e.Meta); bytes.Equal(first.Value, second.Value) {
			t.Errorf("Raw returns the same bytes for two values")
		}
		t.clock.set(e.ExpiresAt.Time()) // dead to its caller, not to the store
		t.raw("at the expiry", key, e.Meta)
	},
}, {
	name:        "raw/absent",
	explanation: "Raw of an absent key is driver.ErrNotFound, and of an invalid one an *InvalidError, as from Get.",
	needs:       []Feature{RawReader},
	run: func(t *trial) {
		r := t.rawReader()
		_, err := r.Raw(t.ctx, t.key("never"))
		t.notFound("Raw of a key never written", err)
		t.quiet("Raw of a key never written", err)
		t.insert(t.key("a"), 1, t.life(time.Hour))
		t.ok("Delete", t.d.Delete(t.ctx, t.key("a")))
		_, err = r.Raw(t.ctx, t.key("a"))
		t.notFound("Raw of a deleted record", err)
		_, err = r.Raw(t.ctx, "")
		t.invalid("Raw of an empty key", err)
	},
}, {
	name:        "raw/malformed",
	explanation: "Raw must return a record whose life cannot be read, and say why: operators inspect records by it.",
	needs:       []Feature{RawReader, Malform},
	run: func(t *trial) {
		key := t.key("bad")
		t.ok("Backend.Malform", t.b.Malform(t.ctx, key, value(1)))
		r, err := t.rawReader().Raw(t.ctx, key)
		t.ok("Raw of a record whose life cannot be read", err)
		if !errors.Is(r.Problem, driver.ErrInvalid) {
			t.Errorf("Raw returns the problem %v; want a *driver.InvalidError", r.Problem)
		}
		if len(r.Value) == 0 {
			t.Errorf("Raw returns no value")
		}
		t.quiet("the problem", r.Problem)
	},
}}
