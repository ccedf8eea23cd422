package drivertest

import (
	"errors"
	"runtime"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// access is one now that keeps a record for an hour, stores ten minutes more, and lets
// none live longer than a day.
func (t *trial) access() driver.Access {
	ms := func(d time.Duration) driver.Instant { return driver.Instant(0).Add(d) }
	return driver.Access{At: t.now(), Keep: ms(time.Hour), Stored: ms(70 * time.Minute), Most: ms(day), Step: t.step}
}

// readTouched wants ReadTouch to return e as it is then stored: with the life of the access if
// touched, else unchanged.
func (t *trial) readTouched(when, key string, known *driver.Meta, a driver.Access, e driver.Entry[Value], touched bool) driver.Entry[Value] {
	got, did, err := capability[driver.ReadToucher[Value]](t).ReadTouch(t.ctx, key, known, a, t.now())
	t.ok(when+": ReadTouch", err)
	if did != touched {
		t.Errorf("%s: ReadTouch says touched: %t; want %t", when, did, touched)
	}
	if touched {
		e.Life, _ = a.Touch(e.Life)
		e.Version = got.Version // some stores change it
	}
	t.same(when+": ReadTouch", got, e)
	t.stored(when+", after ReadTouch", key, e)
	return got
}

// readTouchedOrNot is readTouched for cases in which a driver that plans from known may leave
// the record unchanged.
func (t *trial) readTouchedOrNot(when, key string, known *driver.Meta, e driver.Entry[Value]) {
	got, did, err := capability[driver.ReadToucher[Value]](t).ReadTouch(t.ctx, key, known, t.access(), t.now())
	t.ok(when+": ReadTouch", err)
	if did {
		e.Life, _ = t.access().Touch(e.Life)
		e.Version = got.Version
	}
	t.same(when+": ReadTouch", got, e)
	t.stored(when+", after ReadTouch", key, e)
}

var readTouchCases = []testCase{{
	name:        "readtouch/due",
	explanation: "If the remembered record is right, ReadTouch must return the unchanged value with the life that it has written, and report that it touched: the store above then sends no other touch.",
	needs:       []Feature{ReadToucher},
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		for range 3 {
			t.advance(20 * time.Minute)
			e = t.readTouched("a due read", t.key("a"), &e.Meta, t.access(), e, true)
		}
		t.replaced("Replace of what ReadTouch returned", t.key("a"), 2, e.Meta, e.Life)
	},
}, {
	name:        "readtouch/not-due",
	explanation: "ReadTouch must write nothing if the stored expiry keeps the access's promise. Otherwise every read of a hot key is a write.",
	needs:       []Feature{ReadToucher},
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour+t.unit))
		t.readTouched("a read that is not due", t.key("a"), &e.Meta, t.access(), e, false)
		t.readTouched("one of a record not remembered", t.key("a"), nil, t.access(), e, false)
	},
}, {
	name:        "readtouch/cap",
	explanation: "ReadTouch must move an expiry to the cap and no further, and write nothing at the cap. Otherwise a record outlives its max lifetime, or is written at every read of its last hour.",
	needs:       []Feature{ReadToucher},
	run: func(t *trial) {
		l := t.life(time.Hour)
		l.CreatedAt = l.CreatedAt.Add(30*time.Minute - day)
		l.ExpiresAt = t.at(t.now().Add(20 * time.Minute))
		e := t.insert(t.key("a"), 1, l)
		e = t.readTouched("a read near the cap", t.key("a"), &e.Meta, t.access(), e, true)
		t.advance(time.Minute)
		t.readTouched("a read of a record at its cap", t.key("a"), &e.Meta, t.access(), e, false)
	},
}, {
	name:        "readtouch/promote",
	explanation: "An access that promotes must make the record last to its cap.",
	needs:       []Feature{ReadToucher},
	run: func(t *trial) {
		a := t.access()
		a.Keep, a.Promote = driver.MaxInstant, true
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		e = t.readTouched("a read that promotes", t.key("a"), &e.Meta, a, e, true)
		t.readTouched("a second one", t.key("a"), &e.Meta, a, e, false)
	},
}, {
	name:        "readtouch/absent",
	explanation: "ReadTouch of an absent key must return ErrNotFound and create nothing. Otherwise a logged-out session comes back.",
	needs:       []Feature{ReadToucher},
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.ok("Delete", t.d.Delete(t.ctx, t.key("a")))
		t.advance(20 * time.Minute)
		for when, known := range map[string]*driver.Meta{"remembered": &e.Meta, "not remembered": nil} {
			_, touched, err := capability[driver.ReadToucher[Value]](t).ReadTouch(t.ctx, t.key("a"), known, t.access(), t.now())
			t.notFound("ReadTouch of a deleted record "+when, err)
			if touched {
				t.Errorf("ReadTouch of a deleted record %s says that it was touched", when)
			}
			t.absent("after ReadTouch of a deleted record", t.key("a"))
		}
	},
}, {
	name:        "readtouch/dead",
	explanation: "ReadTouch must not revive a record whose expiry has come, even if the store still holds it. It returns the record unchanged, and its caller judges it.",
	needs:       []Feature{ReadToucher},
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		t.clock.set(e.ExpiresAt.Time())
		t.readTouched("a read at the expiry", t.key("a"), &e.Meta, t.access(), e, false)
		t.readTouched("a read at the expiry of a record not remembered", t.key("a"), nil, t.access(), e, false)
	},
}, {
	name:        "readtouch/remembered-wrong",
	explanation: "What the caller remembers is a hint. ReadTouch must return the record as it is stored, and may move only that record's expiry, as the access says. Otherwise a value comes with another record's life, or dies early.",
	needs:       []Feature{ReadToucher},
	run: func(t *trial) {
		first := t.insert(t.key("overwritten"), 1, t.life(30*time.Minute))
		now := t.replaced("Replace", t.key("overwritten"), 2, first.Meta, first.Life)
		t.readTouchedOrNot("a record overwritten since", t.key("overwritten"), &first.Meta, now)

		first = t.insert(t.key("touched"), 1, t.life(30*time.Minute))
		now = t.touched("Touch", t.key("touched"), first, t.later(first.Life, 2*time.Hour))
		t.readTouchedOrNot("a record touched since", t.key("touched"), &first.Meta, now)

		l := t.life(30 * time.Minute)
		old, next := t.regenerated(t.key("next"), driver.Life{CreatedAt: l.CreatedAt.Add(-day), ExpiresAt: l.ExpiresAt}, l)
		t.readTouchedOrNot("a record created again since", t.key("next"), &old.Meta, next)

		now = t.insert(t.key("forgotten"), 1, t.life(30*time.Minute))
		t.readTouchedOrNot("a record not remembered", t.key("forgotten"), nil, now)
	},
}, {
	name:        "readtouch/foreign",
	explanation: "ReadTouch must leave a record without created_at, or without an expiry, unchanged: an access does not decide about adoption.",
	needs:       []Feature{ReadToucher, Plant},
	run: func(t *trial) {
		for name, l := range map[string]driver.Life{"expires": {ExpiresAt: t.at(t.now().Add(time.Minute))}, "stays": {}} {
			e := t.plant(t.key(name), 1, l)
			for _, known := range []*driver.Meta{&e.Meta, nil} {
				t.readTouched("another program's record", t.key(name), known, t.access(), e, false)
			}
		}
	},
}, {
	name:        "readtouch/race",
	explanation: "The read and the touch of one ReadTouch must see the same record. A value must never come with another value's version, even with writers in between.",
	needs:       []Feature{ReadToucher},
	run: func(t *trial) {
		const writers, each = 4, 16
		key := t.key("a")
		first := t.insert(key, 0, t.life(time.Minute))
		written := make([]map[driver.Version]int, writers)
		type seen struct {
			version driver.Version
			value   Value
		}
		var read [writers][]seen
		t.together(2*writers, func(i int) {
			if i%2 == 0 {
				t.writeAgain(key, i/2+1, each, &written[i/2])
				return
			}
			known := &first.Meta
			for range each {
				e, _, err := capability[driver.ReadToucher[Value]](t).ReadTouch(t.ctx, key, known, t.access(), t.now())
				if err != nil {
					t.Fatalf("ReadTouch that races writers: %v", err)
				}
				read[i/2] = append(read[i/2], seen{e.Version, e.Value})
				known = &e.Meta
				runtime.Gosched()
			}
		})
		for _, reads := range read {
			for _, r := range reads {
				for _, by := range written {
					if n, ok := by[r.version]; ok && !r.value.equal(value(n)) {
						t.Errorf("ReadTouch returned %s with version %d, under which value %d was written", spell(r.value), r.version, n)
					}
				}
			}
		}
	},
}}

// writeAgain replaces the record under key several times by value(n), with a life that is
// due again, and notes the versions written.
func (t *trial) writeAgain(key string, n, times int, written *map[driver.Version]int) {
	*written = make(map[driver.Version]int)
	was := t.get(key).Meta
	for lost := 0; times > 0; {
		version, err := t.d.Replace(t.ctx, key, value(n), was, driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: t.life(time.Minute).ExpiresAt}, t.now())
		var conflict *driver.ConflictError
		switch {
		case err == nil:
			(*written)[version] = n
			was = t.get(key).Meta
			times--
		case errors.As(err, &conflict):
			was = conflict.Found
			if lost++; lost > mostLost {
				t.Fatalf("Replace lost %d races", lost)
			}
		default:
			t.Fatalf("Replace that races ReadTouch: %v", err)
		}
		runtime.Gosched()
	}
}
