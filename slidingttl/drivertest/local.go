package drivertest

import (
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// loaded wants Load to return want.
func (t *trial) loaded(when, key string, want driver.Entry[Value]) *Value {
	v, meta, err := capability[driver.Local[Value]](t).Load(key)
	t.ok(when+": Load", err)
	t.same(when+", by Load", driver.Entry[Value]{Value: *v, Meta: meta}, want)
	return v
}

var localCases = []testCase{{
	name:        "local/load",
	explanation: "Load must return what Get does, because a store calls it instead: the value, the life, the version, and the same errors.",
	needs:       []Feature{Local},
	run: func(t *trial) {
		l := capability[driver.Local[Value]](t)
		_, _, err := l.Load(t.key("never"))
		t.notFound("Load of a key never written", err)
		if _, _, err = l.Load(""); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Load of an empty key: the error is %v; want %v", err, driver.ErrInvalid)
		}
		key := t.key("a")
		e := t.insert(key, 1, t.life(time.Hour))
		t.loaded("after Insert", key, e)
		e = t.touched("Touch", key, e, t.later(e.Life, time.Hour))
		t.loaded("after Touch", key, e)
		e = t.replaced("Replace", key, 2, e.Meta, e.Life)
		t.loaded("after Replace", key, e)
		t.clock.set(e.ExpiresAt.Time()) // dead to its caller, not to the store
		t.loaded("at the expiry", key, e)
		t.ok("Delete", t.d.Delete(t.ctx, key))
		_, _, err = l.Load(key)
		t.notFound("Load of a deleted record", err)
	},
}, {
	name:        "local/stable",
	explanation: "A value that Load has returned must not change when its record is written. Otherwise a reader sees half of each value.",
	needs:       []Feature{Local},
	run: func(t *trial) {
		key := t.key("a")
		e := t.insert(key, 1, t.life(time.Hour))
		first := t.loaded("after Insert", key, e)
		e = t.replaced("Replace", key, 2, e.Meta, e.Life)
		second := t.loaded("after Replace", key, e)
		t.touched("Touch", key, e, t.later(e.Life, time.Hour))
		t.ok("Delete", t.d.Delete(t.ctx, key))
		t.loaded("after Delete and Insert", key, t.insert(key, 3, t.life(time.Hour)))
		if !first.equal(value(1)) || !second.equal(value(2)) {
			t.Errorf("values that Load returned have changed, to %.200s and %.200s", spell(*first), spell(*second))
		}
	},
}}
