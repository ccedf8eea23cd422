package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// retaining switches the case to a driver that retains dead records for d.
func (t *trial) retaining(d time.Duration) {
	t.d = t.b.Retain(d)
	if t.d == nil {
		t.Fatalf("Backend.Retain returns no driver")
	}
}

// written makes a record by each kind of write, each with ttl to live.
func (t *trial) written(ttl time.Duration) map[string]driver.Entry[Value] {
	const hour = time.Hour
	life, ms := t.life(ttl), driver.Instant(0).Add(ttl)
	entries := map[string]driver.Entry[Value]{
		"inserted": t.insert(t.key("inserted"), 1, life),
		"touched":  t.touched("Touch", t.key("touched"), t.insert(t.key("touched"), 2, t.life(hour)), life),
		"replaced": t.replaced("Replace", t.key("replaced"), 3, t.insert(t.key("replaced"), 0, t.life(hour)).Meta, life),
	}
	next := driver.Life{CreatedAt: life.CreatedAt - 1, ExpiresAt: life.ExpiresAt}
	entries["next"] = t.replaced("Replace with another created_at", t.key("next"), 4, t.insert(t.key("next"), 0, t.life(hour)).Meta, next)
	for name, known := range map[string]bool{"upserted": false, "upserted-known": true} {
		var was *driver.Meta
		if known {
			e := t.insert(t.key(name), 0, t.life(hour))
			was = &e.Meta
		}
		m, err := driver.Upsert(t.ctx, t.d, t.key(name), value(5), was, func(*driver.Meta) (driver.Life, error) { return life, nil }, t.now())
		t.ok("Upsert", err)
		entries[name] = driver.Entry[Value]{Value: value(5), Meta: m}
	}
	a := driver.Access{At: t.now(), Keep: ms, Stored: ms, Most: driver.Instant(0).Add(day), Step: t.step}
	if o, ok := driver.As[driver.Overwriter[Value]](t.d); ok {
		for name, over := range map[string]bool{"overwritten": false, "overwritten-live": true} {
			if over {
				t.insert(t.key(name), 0, life) // which an overwrite does not shorten
			}
			m, err := o.Overwrite(t.ctx, t.key(name), value(6), life, a, t.now())
			t.ok("Overwrite", err)
			entries[name] = driver.Entry[Value]{Value: value(6), Meta: m}
		}
	}
	if r, ok := driver.As[driver.ReadToucher[Value]](t.d); ok {
		e := t.insert(t.key("readtouched"), 7, t.life(ttl-t.step))
		e, _, err := r.ReadTouch(t.ctx, t.key("readtouched"), &e.Meta, a, t.now())
		t.ok("ReadTouch", err)
		entries["readtouched"] = e
	}
	return entries
}

// held wants each kind of read to return entries as they were written.
func (t *trial) held(when string, entries map[string]driver.Entry[Value]) {
	for name, e := range entries {
		when := when + ", a record that was " + name
		t.stored(when, t.key(name), e)
		latest, err := driver.GetLatest(t.ctx, t.d, t.key(name))
		t.ok(when+": GetLatest", err)
		t.same(when+", by GetLatest", latest, e)
		found, err := driver.GetMulti(t.ctx, t.d, []string{t.key(name)})
		t.ok(when+": GetMulti", err)
		t.same(when+", by GetMulti", found[t.key(name)], e)
	}
}

// retentions returns the retentions of the drivers that share a store in the cases below.
func retentions(u time.Duration) []time.Duration { return []time.Duration{0, u, 2 * u} }

// byAll wants every driver over the store to read e under key.
func (t *trial) byAll(when, key string, e driver.Entry[Value]) {
	for _, r := range retentions(time.Hour) {
		t.retaining(r)
		t.stored(fmt.Sprintf("%s, read by one that retains for %v", when, r), key, e)
	}
}

// deadToAll wants no driver over the store to write over the record e under key.
func (t *trial) deadToAll(when, key string, e driver.Entry[Value]) {
	for _, r := range retentions(time.Hour) {
		t.retaining(r)
		t.refused(fmt.Sprintf("%s, to one that retains for %v", when, r), key, e)
	}
}

// refused wants every call for live records to refuse the dead record e.
func (t *trial) refused(when, key string, e driver.Entry[Value]) {
	later := t.later(e.Life, 3*time.Hour)
	_, err := t.d.Touch(t.ctx, key, e.Meta, later, t.now())
	t.notFound(when+": Touch", err)
	_, err = t.d.Replace(t.ctx, key, value(9), e.Meta, later, t.now())
	t.notFound(when+": Replace", err)
	t.notFound(when+": Remove", t.remove(key, e.Meta))
	if r, ok := driver.As[driver.ReadToucher[Value]](t.d); ok {
		for _, known := range []*driver.Meta{&e.Meta, nil} {
			got, touched, err := r.ReadTouch(t.ctx, key, known, t.access(), t.now())
			t.ok(when+": ReadTouch", err)
			t.same(when+": ReadTouch", got, e)
			if touched {
				t.Errorf("%s: ReadTouch says that it touched", when)
			}
		}
	}
	t.stored(when+", after writes that are for live records", key, e)
}

var retainCases = []testCase{{
	name:        "store/history",
	explanation: "History must return a record that died and is retained, with its cause, and every other call must find it absent. Otherwise the record is lost, or a dead session comes back.",
	needs:       []Feature{Retain},
	run: func(t *trial) {
		t.retaining(time.Hour)
		p := slidingttl.Policy{IdleGrace: 4 * t.unit, MaxLifetime: 6 * t.unit}
		s := t.store(p)
		idle, aged := t.key("idle"), t.key("aged")
		_, err := s.History(t.ctx, idle)
		t.notFound("History of a key never written", err)
		t.upsert(s, idle, 1)
		t.upsert(s, aged, 2)
		e := t.get(idle)
		t.until(e.CreatedAt.Add(2*t.unit + t.unit/2))
		t.reads("a read that touches", s, aged, 2)
		if _, err := s.History(t.ctx, idle); !errors.Is(err, slidingttl.ErrAlive) {
			t.Errorf("History of a live record: the error is %v; want %v", err, slidingttl.ErrAlive)
		}
		t.until(e.ExpiresAt)
		t.dead("at the expiry", s, idle)
		t.past("at the expiry", s, idle, e, e.ExpiresAt, slidingttl.ReadDiedIdle)

		old := t.get(aged)
		t.until(old.ExpiresAt)
		t.dead("at the cap", s, aged)
		t.past("at the cap", s, aged, old, p.Cap(old.CreatedAt), slidingttl.ReadDiedOfAge)

		t.upsert(s, aged, 3)
		if _, err := s.History(t.ctx, aged); !errors.Is(err, slidingttl.ErrAlive) {
			t.Errorf("History of a record that began a new life: the error is %v; want %v", err, slidingttl.ErrAlive)
		}
		t.reads("a new life", s, aged, 3)
		t.ok("Store.Delete", s.Delete(t.ctx, idle))
		_, err = s.History(t.ctx, idle)
		t.notFound("History of a deleted record", err)
	},
}, {
	name:        "retain/retired-foreign",
	explanation: "A record without created_at that is retired must be retained like any other: Retire deletes nothing.",
	needs:       []Feature{Retain, Mixed, Plant},
	run: func(t *trial) {
		t.retaining(time.Hour)
		s, expires, stays := t.store(exact), t.key("expires"), t.key("stays")
		l := t.life(time.Hour)
		t.plant(expires, 1, driver.Life{ExpiresAt: l.ExpiresAt})
		t.plant(stays, 1, driver.Life{})
		t.advance(time.Minute)
		for _, key := range []string{expires, stays} {
			t.ok("Retire", s.Retire(t.ctx, key))
			t.dead("after Retire", s, key)
			past, err := s.History(t.ctx, key)
			if t.ok("History after Retire", err); past.Value.Count != value(1).Count {
				t.Errorf("History after Retire has count %d; want %d", past.Value.Count, value(1).Count)
			}
			t.upsert(s, key, 2)
			t.reads("a new life after Retire", s, key, 2)
		}
	},
}, {
	name:        "retain/held",
	explanation: "A driver with a retention must have its store hold dead records that long, whichever call wrote them, and return them as they were. Otherwise they cannot be archived or reported.",
	needs:       []Feature{Retain},
	run: func(t *trial) {
		const keep = 4
		t.retaining(keep * t.unit)
		entries := t.written(2 * t.unit)
		var first, last driver.Instant
		for _, e := range entries {
			last = max(last, e.ExpiresAt)
			if first == 0 || e.ExpiresAt < first {
				first = e.ExpiresAt
			}
		}
		t.until(last)
		t.held("at the expiry", entries)
		t.until(first.Add(keep*t.unit - t.margin))
		t.held("shortly before the end of the retention", entries)
	},
}, {
	name:        "retain/dead",
	explanation: "A retained record is dead from the expiry it was given, not from the store's own: no touch, overwrite or removal may land on it, and it must not block an insert. Otherwise logged-out users come back, and their keys stay taken for weeks.",
	needs:       []Feature{Retain},
	run: func(t *trial) {
		t.retaining(time.Hour)
		entries := t.written(2 * t.unit)
		for _, e := range entries {
			t.until(e.ExpiresAt)
		}
		for name, e := range entries {
			t.refused("a dead record that was "+name, t.key(name), e)
		}
		t.stored("after Insert over a dead record", t.key("inserted"), t.insert(t.key("inserted"), 8, t.life(time.Hour)))

		life := t.life(time.Hour)
		m, err := driver.Upsert(t.ctx, t.d, t.key("touched"), value(8), &driver.Meta{Life: entries["touched"].Life, Version: entries["touched"].Version}, func(found *driver.Meta) (driver.Life, error) {
			if found != nil && !found.Alive(t.now()) {
				t.Errorf("Upsert over a dead record shows it to the plan: %s", describe(found.Life))
			}
			return life, nil
		}, t.now())
		t.ok("Upsert over a dead record", err)
		t.stored("after Upsert over a dead record", t.key("touched"), driver.Entry[Value]{Value: value(8), Meta: driver.Meta{Life: life, Version: m.Version}})

		if o, ok := driver.As[driver.Overwriter[Value]](t.d); ok {
			m, err := o.Overwrite(t.ctx, t.key("replaced"), value(8), life, t.access(), t.now())
			t.ok("Overwrite of a dead record", err)
			t.stored("after Overwrite of a dead record", t.key("replaced"), driver.Entry[Value]{Value: value(8), Meta: driver.Meta{Life: life, Version: m.Version}})
		}
		t.ok("Delete of a dead record", t.d.Delete(t.ctx, t.key("next")))
		t.absent("after Delete of a dead record", t.key("next"))
	},
}, {
	name:        "retain/mixed",
	explanation: "Processes with different retentions, and ones without, share a store while a retention is rolled out. Each must read the expiry that the last write gave, whichever process made it, and a record that is dead to one must be dead to all. An expiry left behind by a write would end live sessions; one that is not read would revive dead ones.",
	needs:       []Feature{Retain, Mixed},
	run: func(t *trial) {
		for _, first := range retentions(time.Hour) {
			for _, second := range retentions(time.Hour) {
				t.mixed(first, second, time.Minute)
				if first != second && first != 0 {
					// The expiry that the second gives is the store's own of the first.
					t.mixed(first, second, first)
				}
			}
		}
	},
}, {
	name:        "retain/mixed-held",
	explanation: "A record must outlive every promise, even if the process that touched it retains for longer or shorter than the one that wrote it: each write must set the store's own expiry.",
	needs:       []Feature{Retain, Mixed},
	run: func(t *trial) {
		entries := make(map[string]driver.Entry[Value])
		const last = 6
		life := t.life(last * t.unit)
		for _, first := range retentions(2 * t.unit) {
			for _, second := range retentions(2 * t.unit) {
				name := fmt.Sprintf("%v-%v", first, second)
				t.retaining(first)
				touched := t.insert(t.key(name), 1, t.life(2*t.unit))
				replaced := t.insert(t.key(name+"-replaced"), 1, t.life(2*t.unit))
				t.retaining(second)
				entries[name] = t.touched("Touch", t.key(name), touched, driver.Life{CreatedAt: touched.CreatedAt, ExpiresAt: life.ExpiresAt})
				entries[name+"-replaced"] = t.replaced("Replace", t.key(name+"-replaced"), 2, replaced.Meta, driver.Life{CreatedAt: replaced.CreatedAt, ExpiresAt: life.ExpiresAt})
			}
		}
		t.until(life.ExpiresAt.Add(-t.margin))
		var keys []string
		for name := range entries {
			keys = append(keys, t.key(name))
		}
		found, err := driver.GetMulti(t.ctx, t.d, keys) // in one call, for there is little time
		t.ok("GetMulti", err)
		for name, e := range entries {
			t.same("shortly before the expiry, a record retained for "+name, found[t.key(name)], e)
		}
	},
}, {
	name:        "retain/foreign",
	explanation: "A record that another program writes over a retained one belongs to that program: the expiry kept beside the old record must neither end it nor extend it.",
	needs:       []Feature{Retain, Mixed, Plant},
	run: func(t *trial) {
		for _, r := range retentions(time.Hour) {
			for name, moved := range map[string]time.Duration{"sooner": -time.Minute, "later": time.Minute, "when-held-no-more": r} {
				t.retaining(r)
				key := t.key(fmt.Sprintf("%s-%v", name, r))
				e := t.insert(key, 1, t.life(30*time.Minute))
				planted := t.plant(key, 2, driver.Life{ExpiresAt: t.at(e.ExpiresAt.Add(moved))})
				t.byAll(fmt.Sprintf("retained for %v, then written by another program to expire %s", r, name), key, planted)
			}
		}
	},
}, {
	name:        "retain/scan",
	explanation: "A scan must show a retained record with the expiry it was given, and say until when the store holds it. Otherwise an audit counts dead records as live, and a reaper removes what is to be archived.",
	needs:       []Feature{Retain, Scanner},
	run: func(t *trial) {
		const most = 10 * time.Minute // later than it must, a store may hold a record
		t.retaining(time.Hour)
		e := t.insert(t.key("a"), 1, t.life(2*t.unit))
		for _, when := range []string{"alive", "dead"} {
			seen := make(visited)
			t.scanAll(t.segments(1), 1000, seen, nil)
			records := seen[t.key("a")]
			if len(records) == 0 {
				t.Fatalf("%s: the scan misses the record", when)
			}
			for _, r := range records {
				if r.Life != e.Life || r.Problem != nil {
					t.Errorf("%s: the scan shows %s and the problem %v; want %s", when, describe(r.Life), r.Problem, describe(e.Life))
				}
				if least := e.ExpiresAt.Add(time.Hour); r.HeldUntil < least || r.HeldUntil > least.Add(most) {
					t.Errorf("%s: the scan says that it is held until %v; want %v", when, r.HeldUntil.Time(), least.Time())
				}
			}
			t.until(e.ExpiresAt)
		}
	},
}, {
	name:        "retain/raw",
	explanation: "Raw must return a retained record with the expiry it was given, as Get does. Otherwise an archive records a wrong time of death.",
	needs:       []Feature{Retain, RawReader},
	run: func(t *trial) {
		t.retaining(time.Hour)
		e := t.insert(t.key("a"), 1, t.life(2*t.unit))
		t.raw("alive", t.key("a"), e.Meta)
		t.until(e.ExpiresAt)
		t.raw("dead", t.key("a"), e.Meta)
	},
}}

// mixed writes a record by a driver with the retention first. Then a driver with the retention
// second writes it again with its expiry moved, by each kind of write.
func (t *trial) mixed(first, second, moved time.Duration) {
	by := fmt.Sprintf("retained for %v, then for %v and moved by %v", first, second, moved)
	began := t.clock.Now()
	for i, w := range []string{"touched", "replaced", "upserted", "created again", "inserted over the dead"} {
		when, key := w+", "+by, t.key(fmt.Sprintf("%d-%v-%v-%v", i, first, second, moved))
		t.retaining(first)
		e := t.insert(key, 1, t.life(30*time.Minute))
		to := t.later(e.Life, moved)
		t.retaining(second)
		switch w {
		case "touched":
			e = t.touched(when, key, e, to)
		case "replaced":
			e = t.replaced(when, key, 2, e.Meta, to)
		case "upserted":
			m, err := driver.Upsert(t.ctx, t.d, key, value(2), nil, func(*driver.Meta) (driver.Life, error) { return to, nil }, t.now())
			t.ok(when, err)
			e = driver.Entry[Value]{Value: value(2), Meta: driver.Meta{Life: to, Version: m.Version}}
		case "created again":
			to.CreatedAt++
			e = t.replaced(when, key, 2, e.Meta, to)
		default:
			t.byAll("before it died, "+by, key, e)
			t.clock.set(e.ExpiresAt.Time())
			t.deadToAll("dead, "+by, key, e)
			t.retaining(second)
			to.CreatedAt = t.now()
			e = t.insert(key, 2, to)
		}
		t.byAll(when, key, e)
		t.clock.set(began)
	}
}

// past wants s.History to return e, which died then, of cause, and to change nothing.
func (t *trial) past(when string, s *slidingttl.Store[Value], key string, e driver.Entry[Value], died driver.Instant, cause slidingttl.ReadOutcome) {
	p, err := s.History(t.ctx, key)
	t.ok(when+": History", err)
	t.same(when+": History", p.Entry, e)
	if p.DiedAt != died || p.Cause != cause {
		t.Errorf("%s: History says that it died at %v: %v; want %v: %v", when, p.DiedAt.Time(), p.Cause, died.Time(), cause)
	}
	t.stored(when+", after History", key, e)
}
