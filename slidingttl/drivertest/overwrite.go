package drivertest

import (
	"errors"
	"runtime"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// newLife is the life of a new record.
func (t *trial) newLife() driver.Life { return t.life(70 * time.Minute) }

// overwrite calls the driver's Overwrite, or Upsert with an equivalent plan.
func (t *trial) overwrite(key string, v Value, newLife driver.Life, a driver.Access) (driver.Meta, error) {
	if o, ok := driver.As[driver.Overwriter[Value]](t.d); ok {
		return o.Overwrite(t.ctx, key, v, newLife, a, t.now())
	}
	return driver.Upsert(t.ctx, t.d, key, v, nil, a.Overwrite(newLife, t.now()), t.now())
}

// overwritten wants Overwrite to write life.
func (t *trial) overwritten(when, key string, n int, a driver.Access, life driver.Life) driver.Entry[Value] {
	meta, err := t.overwrite(key, value(n), t.newLife(), a)
	t.ok(when+": Overwrite", err)
	if meta.Life != life {
		t.Errorf("%s: Overwrite returned %s; want %s", when, describe(meta.Life), describe(life))
	}
	e := driver.Entry[Value]{Value: value(n), Meta: driver.Meta{Life: life, Version: meta.Version}}
	t.stored(when+", after Overwrite", key, e)
	return e
}

var overwriteCases = []testCase{{
	name:        "overwrite/none",
	explanation: "Overwrite must start a new life for an absent key, over a record whose expiry has come, and over one past its cap, even if the store still holds it.",
	run: func(t *trial) {
		t.overwritten("an absent key", t.key("a"), 1, t.access(), t.newLife())
		t.ok("Delete", t.d.Delete(t.ctx, t.key("a")))
		t.overwritten("a deleted key", t.key("a"), 2, t.access(), t.newLife())

		l := t.life(time.Hour)
		l.CreatedAt = t.now().Add(-day)
		t.insert(t.key("aged"), 1, l)
		t.overwritten("a record whose cap is now", t.key("aged"), 2, t.access(), t.newLife())

		e := t.insert(t.key("dead"), 1, t.life(time.Hour))
		t.clock.set(e.ExpiresAt.Time())
		t.overwritten("a record whose expiry is now", t.key("dead"), 2, t.access(), t.newLife())
	},
}, {
	name:        "overwrite/live",
	explanation: "Overwrite must keep the created_at of a live record and write another version. Otherwise a session that is saved again never reaches its cap.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.advance(30 * time.Minute)
		life, _ := t.access().Touch(e.Life)
		now := t.overwritten("a live record", t.key("a"), 2, t.access(), life)
		if now.Version == e.Version {
			t.Errorf("Overwrite left version %d", e.Version)
		}
		t.replaced("Replace of what Overwrite returned", t.key("a"), 3, now.Meta, now.Life)

		l := t.life(time.Hour)
		l.CreatedAt = t.now().Add(1 - day)
		l.ExpiresAt = t.at(l.CreatedAt.Add(day))
		t.insert(t.key("last"), 1, l)
		t.overwritten("a record in the last millisecond before its cap", t.key("last"), 2, t.access(), l)
	},
}, {
	name:        "overwrite/forward",
	explanation: "Overwrite must move an expiry forward only, and not beyond the cap. Otherwise a record dies before what another caller was promised, or lives for ever.",
	run: func(t *trial) {
		long := t.life(2 * time.Hour)
		t.insert(t.key("long"), 1, long)
		t.overwritten("a record that lasts longer", t.key("long"), 2, t.access(), long)

		near := t.life(20 * time.Minute)
		near.CreatedAt = near.CreatedAt.Add(30*time.Minute - day)
		t.insert(t.key("near"), 1, near)
		near.ExpiresAt = t.at(near.CreatedAt.Add(day))
		t.overwritten("a record near its cap", t.key("near"), 2, t.access(), near)
		t.overwritten("a record that lasts to its cap", t.key("near"), 3, t.access(), near)

		a := t.access()
		a.Keep, a.Promote = driver.MaxInstant, true
		e := t.insert(t.key("promoted"), 1, t.life(time.Hour))
		life, _ := a.Touch(e.Life)
		t.overwritten("a record, by an access that promotes", t.key("promoted"), 2, a, life)
	},
}, {
	name:        "overwrite/foreign",
	explanation: "Overwrite must leave a live record without created_at, or without an expiry, unchanged, and return it: the driver does not decide about adoption.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		for name, l := range map[string]driver.Life{"expires": {ExpiresAt: t.at(t.now().Add(time.Hour))}, "stays": {}} {
			e := t.plant(t.key(name), 1, l)
			_, err := t.overwrite(t.key(name), value(2), t.newLife(), t.access())
			t.conflict("Overwrite of another program's record", err, e.Meta)
			t.stored("after Overwrite of it", t.key(name), e)
		}
	},
}, {
	name:        "overwrite/race",
	explanation: "If several overwrites find no record at once, one must start a life, and the others must keep its created_at; none may undo a touch.",
	run: func(t *trial) {
		const writers, each = 4, 8
		for round := range rounds {
			key := t.key(string(rune('a' + round)))
			born := make([]driver.Instant, writers)
			t.together(writers, func(i int) {
				newLife := t.newLife()
				newLife.CreatedAt += driver.Instant(i)
				m, err := t.overwrite(key, value(i), newLife, t.access())
				if err != nil {
					t.Errorf("Overwrite that races others: %v", err)
				}
				born[i] = m.CreatedAt
			})
			e := t.get(key)
			for i := range born {
				if born[i] != e.CreatedAt {
					t.Errorf("an overwrite returned created_at %d; stored is %d", born[i], e.CreatedAt)
				}
			}
			t.together(2, func(i int) {
				for n := range each {
					if i == 0 {
						t.pushExpiry(key, e.Meta)
					} else if err := t.overwriteUntil(key, value(n)); err != nil {
						t.Fatalf("Overwrite that races touches: %v", err)
					}
					runtime.Gosched() // as race/touch-and-replace does
				}
			})
			if moved, want := t.get(key).ExpiresAt.Sub(e.ExpiresAt), each*t.step; moved != want {
				t.Errorf("%d touches by %v each moved the expiry by %v; want %v", each, t.step, moved, want)
			}
		}
	},
}}

// overwriteUntil overwrites again after losing too many races, which is no fault.
func (t *trial) overwriteUntil(key string, v Value) (err error) {
	for range mostLost {
		_, err = t.overwrite(key, v, t.newLife(), t.access())
		if !errors.Is(err, driver.ErrConflict) {
			return err
		}
	}
	return err
}
