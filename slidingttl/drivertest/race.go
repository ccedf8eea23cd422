package drivertest

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	racers = 16
	rounds = 8
	// mostLost is more races than a writer can lose: for each, another writer wins one.
	mostLost = 200
)

// winner runs write at once racers times and wants exactly one to land, and the
// others to fail with a conflict that carries what the winner wrote.
func (t *trial) winner(what, key string, write func(i int) (driver.Entry[Value], error)) {
	entries := make([]driver.Entry[Value], racers)
	errs := make([]error, racers)
	t.together(racers, func(i int) { entries[i], errs[i] = write(i) })
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Fatalf("%d and %d of %d concurrent %s landed; want exactly one", won, i, racers, what)
		case err == nil:
			won = i
		}
	}
	if won < 0 {
		t.Fatalf("none of %d concurrent %s landed: %v", racers, what, errs[0])
	}
	t.stored("after concurrent "+what, key, entries[won])
	for i, err := range errs {
		if i != won {
			t.conflict("the loser of concurrent "+what, err, entries[won].Meta)
		}
	}
}

var raceCases = []testCase{{
	name:        "race/insert",
	explanation: "Of concurrent Inserts of one key exactly one may land, or two callers both believe that they own the record.",
	run: func(t *trial) {
		for round := range rounds {
			key := t.key(string(rune('a' + round)))
			t.winner("Inserts", key, func(i int) (driver.Entry[Value], error) {
				l := t.life(time.Hour)
				l.CreatedAt += driver.Instant(i)
				version, err := t.d.Insert(t.ctx, key, value(i), l, t.now())
				return driver.Entry[Value]{Value: value(i), Meta: driver.Meta{Life: l, Version: version}}, err
			})
		}
	},
}, {
	name:        "race/insert-dead",
	explanation: "Of concurrent Inserts over one dead record exactly one may land: the others find a live record.",
	run: func(t *trial) {
		for round := range rounds {
			key := t.key(string(rune('a' + round)))
			dead := t.insert(key, 99, t.life(time.Hour))
			now := dead.ExpiresAt
			t.winner("Inserts over a dead record", key, func(i int) (driver.Entry[Value], error) {
				l := driver.Life{CreatedAt: now + driver.Instant(i), ExpiresAt: t.at(now.Add(time.Hour))}
				version, err := t.d.Insert(t.ctx, key, value(i), l, now)
				return driver.Entry[Value]{Value: value(i), Meta: driver.Meta{Life: l, Version: version}}, err
			})
		}
	},
}, {
	name:        "race/replace",
	explanation: "Of concurrent Replaces of one record exactly one may land, or updates are lost without an error.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 99, t.life(time.Hour))
		for range rounds {
			t.winner("Replaces", t.key("a"), func(i int) (driver.Entry[Value], error) {
				version, err := t.d.Replace(t.ctx, t.key("a"), value(i), e.Meta, e.Life, t.now())
				return driver.Entry[Value]{Value: value(i), Meta: driver.Meta{Life: e.Life, Version: version}}, err
			})
			e = t.get(t.key("a"))
		}
	},
}, {
	name:        "race/touch",
	explanation: "Of concurrent Touches planned from one expiry exactly one may land; otherwise the last one wins, even with the earliest expiry.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		for range rounds {
			t.winner("Touches", t.key("a"), func(i int) (driver.Entry[Value], error) {
				next := e
				next.Life = t.later(e.Life, time.Duration(i+1)*t.step)
				var err error
				next.Version, err = t.d.Touch(t.ctx, t.key("a"), e.Meta, next.Life, t.now())
				return next, err
			})
			e = t.get(t.key("a"))
		}
	},
}, {
	name:        "race/adopt",
	explanation: "Of concurrent adoptions of one record exactly one may land, or created_at changes after the first.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		for round := range rounds {
			key := t.key(string(rune('a' + round)))
			e := t.plant(key, 1, driver.Life{})
			t.winner("adoptions", key, func(i int) (driver.Entry[Value], error) {
				next := e
				next.Life = t.life(time.Hour)
				next.CreatedAt += driver.Instant(i)
				var err error
				next.Version, err = t.d.Touch(t.ctx, key, e.Meta, next.Life, t.now())
				return next, err
			})
		}
	},
}, {
	name:        "race/touch-and-replace",
	explanation: "Concurrent touches and overwrites of one record must all land in the end, each tried again from its conflict's record. A lost touch kills a hot record early; a lost overwrite is lost data.",
	run: func(t *trial) {
		const writers, each = 3, 8
		key := t.key("a")
		e := t.insert(key, 0, t.life(time.Hour))
		t.together(2*writers, func(i int) {
			for range each {
				if i%2 == 0 {
					t.pushExpiry(key, e.Meta)
				} else {
					t.countUp(key)
				}
				runtime.Gosched() // a write may be so fast that the other goroutine never runs
			}
		})
		got := t.get(key)
		if moved, want := got.ExpiresAt.Sub(e.ExpiresAt), writers*each*t.step; moved != want {
			t.Errorf("%d touches by %v each moved the expiry by %v; want %v", writers*each, t.step, moved, want)
		}
		if counted, want := got.Value.Count-e.Value.Count, int64(writers*each); counted != want {
			t.Errorf("%d updates counted up to %d", want, counted)
		}
		if got.CreatedAt != e.CreatedAt {
			t.Errorf("created_at moved from %s to %s", describe(e.Life), describe(got.Life))
		}
	},
}, {
	name:        "race/delete",
	explanation: "A touch or overwrite that races a Delete must not bring the record back. Otherwise a logged-out session returns.",
	run: func(t *trial) {
		for round := range 2 * rounds {
			key := t.key(string(rune('a' + round)))
			e := t.insert(key, 1, t.life(time.Hour))
			var fine atomic.Bool
			fine.Store(true)
			t.together(3, func(i int) {
				var err error
				switch i {
				case 0:
					err = t.d.Delete(t.ctx, key)
				case 1:
					_, err = t.d.Touch(t.ctx, key, e.Meta, t.later(e.Life, time.Hour), t.now())
				case 2:
					_, err = t.d.Replace(t.ctx, key, value(2), e.Meta, e.Life, t.now())
				}
				if i == 0 && err != nil || err != nil && !errors.Is(err, driver.ErrNotFound) && !errors.Is(err, driver.ErrConflict) {
					t.Errorf("a write that races others: %v", err)
				}
			})
			t.absent("after Delete raced Touch and Replace", key)
		}
	},
}}

// pushExpiry moves the expiry of the record under key by a step, from was or from the record
// of its last conflict.
func (t *trial) pushExpiry(key string, was driver.Meta) {
	var err error
	for range mostLost {
		_, err = t.d.Touch(t.ctx, key, was, t.later(was.Life, t.step), t.now())
		var conflict *driver.ConflictError
		switch {
		case err == nil:
			return
		case !errors.As(err, &conflict):
			t.Fatalf("Touch that races others: %v", err)
		}
		was = conflict.Found
	}
	t.Fatalf("Touch of what its conflicts find never lands: %v", err)
}

// countUp adds one to the value's count.
func (t *trial) countUp(key string) {
	var err error
	for range mostLost {
		e := t.get(key)
		e.Value.Count++
		_, err = t.d.Replace(t.ctx, key, e.Value, e.Meta, e.Life, t.now())
		switch {
		case err == nil:
			return
		case !errors.Is(err, driver.ErrConflict):
			t.Fatalf("Replace that races others: %v", err)
		}
	}
	t.Fatalf("Replace of what Get returns never lands: %v", err)
}
