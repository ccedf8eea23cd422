package drivertest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// planned is a driver.Plan that notes the records that it was shown.
type planned struct {
	t     *trial
	err   error
	mu    sync.Mutex // guards shown
	shown []*driver.Meta
}

// plan keeps a live record's created_at and adds an hour to its expiry.
func (p *planned) plan(found *driver.Meta) (driver.Life, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found == nil {
		p.shown = append(p.shown, nil)
		return p.t.life(time.Hour), p.err
	}
	m := *found
	p.shown = append(p.shown, &m)
	if m.ExpiresAt == 0 {
		return p.t.life(time.Hour), p.err
	}
	l := p.t.later(m.Life, time.Hour)
	if l.CreatedAt == 0 {
		l.CreatedAt = p.t.now()
	}
	return l, p.err
}

// last returns the record for which the written life was planned.
func (p *planned) last() *driver.Meta {
	if len(p.shown) == 0 {
		return nil
	}
	return p.shown[len(p.shown)-1]
}

// upserted wants an upsert by a caller that remembers known to land over found, nil for none.
func (t *trial) upserted(when, key string, n int, known, found *driver.Meta) driver.Entry[Value] {
	p := &planned{t: t}
	meta, err := driver.Upsert(t.ctx, t.d, key, value(n), known, p.plan, t.now())
	t.ok(when, err)
	switch shown := p.last(); {
	case len(p.shown) == 0:
		t.Errorf("%s: the plan was never asked", when)
	case (shown == nil) != (found == nil):
		t.Errorf("%s: the plan was shown %s; want %s", when, describeMeta(shown), describeMeta(found))
	case shown != nil && *shown != *found:
		t.Errorf("%s: the plan was shown %s; want %s", when, describeMeta(shown), describeMeta(found))
	}
	want, _ := (&planned{t: t}).plan(found)
	if meta.Life != want {
		t.Errorf("%s: Upsert returned %s; want what was planned, %s", when, describe(meta.Life), describe(want))
	}
	e := driver.Entry[Value]{Value: value(n), Meta: driver.Meta{Life: want, Version: meta.Version}}
	t.stored(when, key, e)
	return e
}

func describeMeta(m *driver.Meta) string {
	if m == nil {
		return "no record"
	}
	return fmt.Sprintf("%s, version %d", describe(m.Life), m.Version)
}

var upsertCases = []testCase{{
	name:        "upsert/absent",
	explanation: "An upsert of an absent key must write the life planned for a new record.",
	run: func(t *trial) {
		e := t.upserted("Upsert of an absent key", t.key("a"), 1, nil, nil)
		t.ok("Delete", t.d.Delete(t.ctx, t.key("a")))
		t.upserted("Upsert of a deleted key", t.key("a"), 2, nil, nil)
		t.ok("Delete", t.d.Delete(t.ctx, t.key("a")))
		t.upserted("Upsert of a deleted key that the caller remembers", t.key("a"), 3, &e.Meta, nil)
	},
}, {
	name:        "upsert/live",
	explanation: "An upsert over a live record must show the plan what is stored, and write the life that the plan returns. Only the plan keeps created_at.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.advance(time.Minute)
		next := t.upserted("Upsert over a live record", t.key("a"), 2, nil, &e.Meta)
		if next.Version == e.Version {
			t.Errorf("Upsert over a live record left version %d", e.Version)
		}
		t.upserted("Upsert over a live record that the caller remembers", t.key("a"), 3, &next.Meta, &next.Meta)
	},
}, {
	name:        "upsert/dead",
	explanation: "An upsert must treat a dead record as absent, even if it is still stored. Otherwise its old created_at puts a new login past its cap.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.clock.set(e.ExpiresAt.Time())
		e = t.upserted("Upsert over a record whose expiry is now", t.key("a"), 2, nil, nil)
		t.clock.set(e.ExpiresAt.Time())
		t.upserted("Upsert over a dead record that the caller remembers", t.key("a"), 3, &e.Meta, nil)
	},
}, {
	name:        "upsert/remembered-wrong",
	explanation: "What the caller remembers of a record is a hint. If it is out of date, the upsert must find what is stored and call the plan again.",
	run: func(t *trial) {
		e := t.insert(t.key("touched"), 1, t.life(time.Hour))
		now := t.touched("Touch", t.key("touched"), e, t.later(e.Life, time.Hour))
		t.upserted("Upsert of a record touched since", t.key("touched"), 2, &e.Meta, &now.Meta)

		e = t.insert(t.key("overwritten"), 1, t.life(time.Hour))
		now = t.replaced("Replace", t.key("overwritten"), 2, e.Meta, t.later(e.Life, time.Hour))
		t.upserted("Upsert of a record overwritten since", t.key("overwritten"), 3, &e.Meta, &now.Meta)

		l := t.life(time.Hour)
		e, now = t.regenerated(t.key("next"), driver.Life{CreatedAt: l.CreatedAt - 1, ExpiresAt: l.ExpiresAt}, l)
		t.upserted("Upsert of a record created again since", t.key("next"), 3, &e.Meta, &now.Meta)

		e = t.insert(t.key("live"), 1, t.life(time.Hour))
		now = t.touched("Touch", t.key("live"), e, t.later(e.Life, time.Hour))
		t.clock.set(e.ExpiresAt.Time())
		t.upserted("Upsert of a live record remembered as dead", t.key("live"), 2, &e.Meta, &now.Meta)
	},
}, {
	name:        "upsert/plan-fails",
	explanation: "An error of the plan must end the upsert, be returned unchanged, and leave the record unchanged.",
	run: func(t *trial) {
		e := t.insert(t.key("live"), 1, t.life(time.Hour))
		p := &planned{t: t, err: errors.New("the plan's own error")}
		for _, known := range []*driver.Meta{nil, &e.Meta} {
			for _, key := range []string{"absent", "live"} {
				if _, err := driver.Upsert(t.ctx, t.d, t.key(key), value(2), known, p.plan, t.now()); err != p.err {
					t.Errorf("Upsert of a key that is %s with a plan that fails: the error is %v; want the plan's", key, err)
				}
			}
		}
		t.absent("after an upsert whose plan failed", t.key("absent"))
		t.stored("after an upsert whose plan failed", t.key("live"), e)
	},
}, {
	name:        "upsert/foreign",
	explanation: "An upsert over another program's record must show the plan that it has no created_at.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		l := t.life(time.Hour)
		l.CreatedAt = 0
		e := t.plant(t.key("expires"), 1, l)
		t.upserted("Upsert over a record without created_at", t.key("expires"), 2, nil, &e.Meta)
		e = t.plant(t.key("stays"), 1, driver.Life{})
		t.upserted("Upsert over a record without created_at and expiry", t.key("stays"), 2, nil, &e.Meta)
	},
}, {
	name:        "upsert/race",
	explanation: "Concurrent upserts must each land on the record that their plan was shown. Of those that find no record, one starts a life, and the others keep its created_at.",
	run: func(t *trial) {
		const writers = 8
		for round := range rounds {
			key := t.key(string(rune('a' + round)))
			born := make([]driver.Instant, writers)
			t.together(writers, func(i int) {
				plan := func(found *driver.Meta) (driver.Life, error) {
					if found != nil {
						return t.later(found.Life, t.step), nil
					}
					l := t.life(time.Hour)
					l.CreatedAt += driver.Instant(i)
					return l, nil
				}
				meta, err := driver.Upsert(t.ctx, t.d, key, value(i), nil, plan, t.now())
				if err != nil {
					t.Errorf("Upsert that races others: %v", err)
				}
				born[i] = meta.CreatedAt
			})
			e := t.get(key)
			for i := range born {
				if born[i] != e.CreatedAt {
					t.Errorf("an upsert returned created_at %d; stored is %d", born[i], e.CreatedAt)
				}
			}
			first := t.life(time.Hour).ExpiresAt
			if moved, want := e.ExpiresAt.Sub(first), (writers-1)*t.step; moved != want {
				t.Errorf("%d upserts over the first moved the expiry by %v; want %v by each", writers-1, moved, t.step)
			}
		}
	},
}, {
	name:        "upsert/race-touch",
	explanation: "An upsert must not undo a touch that comes between its read and its write. Otherwise the record dies before its promise.",
	run: func(t *trial) {
		const writers, each = 2, 8
		key := t.key("a")
		e := t.insert(key, 0, t.life(time.Hour))
		read := make(chan struct{}) // an upsert has read, and not written yet
		var once sync.Once
		begin := func() { once.Do(func() { close(read) }) }
		plan := func(found *driver.Meta) (driver.Life, error) {
			if found == nil { // a guess, which the store's condition corrects
				return e.Life, nil
			}
			begin()
			return found.Life, nil
		}
		t.together(2*writers, func(i int) {
			if i%2 == 0 {
				<-read
			} else {
				defer begin()
			}
			for range each {
				if i%2 == 0 {
					t.pushExpiry(key, e.Meta)
				} else if err := t.upsertUntil(key, value(i), plan); err != nil {
					t.Fatalf("Upsert that races touches: %v", err)
				}
				runtime.Gosched() // as race/touch-and-replace does
			}
		})
		if moved, want := t.get(key).ExpiresAt.Sub(e.ExpiresAt), writers*each*t.step; moved != want {
			t.Errorf("%d touches by %v each moved the expiry by %v; want %v", writers*each, t.step, moved, want)
		}
	},
}}

// upsertUntil upserts again after losing too many races, which is no fault.
func (t *trial) upsertUntil(key string, v Value, plan driver.Plan) (err error) {
	for range mostLost {
		_, err = driver.Upsert(t.ctx, t.d, key, v, nil, plan, t.now())
		if !errors.Is(err, driver.ErrConflict) {
			return err
		}
	}
	return err
}
