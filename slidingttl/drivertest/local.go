package drivertest

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// loaded wants Load to return want.
func (t *trial) loaded(when, key string, want driver.Entry[Value]) *Value {
	v, meta, _, err := capability[driver.Local[Value]](t).Load(key)
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
		_, _, _, err := l.Load(t.key("never"))
		t.notFound("Load of a key never written", err)
		if _, _, _, err = l.Load(""); !errors.Is(err, driver.ErrInvalid) {
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
		_, _, _, err = l.Load(key)
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
}, {
	name:        "local/slide",
	explanation: "Slide must be a Touch of the very record that Load returned: it moves its expiry forward, or does nothing and says so. Otherwise a read shortens a life, or gives a new one an old expiry.",
	needs:       []Feature{Local},
	run: func(t *trial) {
		s, ok := driver.As[driver.Slider[Value]](t.d)
		if !ok {
			return // its touches are all by Touch
		}
		key := t.key("a")
		slide := func(when string, at *atomic.Int64, was, to driver.Instant, want bool) {
			if got := s.Slide(t.ctx, key, at, was, to); got != want {
				t.Errorf("%s: Slide returns %v; want %v", when, got, want)
			}
		}
		load := func() *atomic.Int64 {
			_, _, at, err := s.Load(key)
			t.ok("Load", err)
			return at
		}
		clock := capability[driver.Clock](t)
		before, next, after := driver.Ceil(clock.Now()), s.Next(), driver.Ceil(clock.Now())
		if next < before || next > after {
			t.Errorf("Next is %d, while Now, rounded up, was %d and then %d", next, before, after)
		}
		e := t.insert(key, 1, t.life(time.Hour))
		at, was := load(), e.ExpiresAt
		for range 2 {
			was, e.Life = e.ExpiresAt, t.later(e.Life, time.Hour)
			slide("of what is stored", at, was, e.ExpiresAt, true)
			t.loaded("after Slide", key, e)
			t.stored("after Slide", key, e)
		}
		slide("from an expiry that has moved", at, was, e.ExpiresAt+1, false)
		slide("backwards", at, e.ExpiresAt, e.ExpiresAt-1, false)
		slide("to where it is", at, e.ExpiresAt, e.ExpiresAt, false)
		e = t.touched("Touch after Slide", key, e, t.later(e.Life, time.Hour))
		t.stored("after Touch", key, e)

		e = t.replaced("Replace", key, 2, e.Meta, e.Life)
		slide("of an overwritten record", at, e.ExpiresAt, e.ExpiresAt+1, false)
		t.stored("after Slide of an overwritten record", key, e)

		at = load()
		t.ok("Delete", t.d.Delete(t.ctx, key))
		slide("of a deleted record", at, e.ExpiresAt, e.ExpiresAt+1, false)
		t.absent("after Slide of a deleted record", key)
		e = t.insert(key, 3, e.Life)
		slide("of the generation before", at, e.ExpiresAt, e.ExpiresAt+1, false)
		t.stored("after Slide of the generation before", key, e)

		at, is := load(), t.touched("a touch that adopts", key, e, driver.Life{CreatedAt: e.CreatedAt + 1, ExpiresAt: e.ExpiresAt})
		slide("of a record whose created_at has changed", at, e.ExpiresAt, e.ExpiresAt+1, false)
		t.stored("after Slide of a record whose created_at has changed", key, is)

		for _, expiry := range []driver.Instant{0, -1, math.MinInt64} {
			t.ok("Delete", t.d.Delete(t.ctx, key))
			if _, err := t.d.Insert(t.ctx, key, value(4), driver.Life{CreatedAt: t.now(), ExpiresAt: expiry}, math.MinInt64); err != nil {
				continue // the driver refuses such an expiry
			}
			_, m, at, err := s.Load(key)
			if err != nil {
				continue // it is dead
			}
			slide("of a record that never expires or is long dead", at, expiry, t.now().Add(time.Hour), false)
			if _, is, _, err := s.Load(key); err == nil && is != m {
				t.Errorf("after Slide of an expiry of %d: %s", expiry, describe(is.Life))
			}
		}
	},
}, {
	name:        "local/slides",
	explanation: "Of a Slide and another write planned for one record, one may land. Otherwise a touch is lost that its caller counts as done, and a record dies early.",
	needs:       []Feature{Local},
	run: func(t *trial) {
		s, ok := driver.As[driver.Slider[Value]](t.d)
		if !ok {
			return // its touches are all by Touch
		}
		for name, write := range map[string]func(key string, e driver.Entry[Value], to driver.Instant) error{
			"Slide": nil,
			"Touch": func(key string, e driver.Entry[Value], to driver.Instant) error {
				_, err := t.d.Touch(t.ctx, key, e.Meta, driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: to}, t.now())
				return err
			},
			"Replace": func(key string, e driver.Entry[Value], to driver.Instant) error {
				_, err := t.d.Replace(t.ctx, key, value(2), e.Meta, driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: to}, t.now())
				return err
			},
			"Remove": func(key string, e driver.Entry[Value], _ driver.Instant) error {
				return driver.Remove(t.ctx, t.d, key, e.Meta, t.now())
			},
		} {
			key := t.key(name)
			for range slideRounds {
				t.ok("Delete", t.d.Delete(t.ctx, key))
				e := t.insert(key, 1, t.life(time.Hour))
				_, _, at, err := s.Load(key)
				t.ok("Load", err)
				var landed [2]bool
				var to [2]driver.Instant
				t.together(2, func(i int) {
					to[i] = e.ExpiresAt + driver.Instant(i) + 1
					if i == 0 || write == nil {
						landed[i] = s.Slide(t.ctx, key, at, e.ExpiresAt, to[i])
					} else {
						landed[i] = write(key, e, to[i]) == nil
					}
				})
				if landed[0] == landed[1] {
					t.Fatalf("of a Slide and a concurrent %s: landed are %v; want exactly one", name, landed)
				}
				if name == "Remove" && landed[1] {
					continue
				}
				want := to[0]
				if landed[1] {
					want = to[1]
				}
				if is := t.get(key); is.ExpiresAt != want {
					t.Fatalf("after a Slide and a concurrent %s, of which %v landed: %s; want an expiry of %d", name, landed, describe(is.Life), want)
				}
			}
		}
	},
}}

// slideRounds is how often a Slide races another write: on two cores several hundred rounds meet.
const slideRounds = 2000
