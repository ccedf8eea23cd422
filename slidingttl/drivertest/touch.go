package drivertest

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// touched wants Touch of e, under key, to land at now and to change only the life, and perhaps
// the version.
func (t *trial) touched(when, key string, e driver.Entry[Value], life driver.Life) driver.Entry[Value] {
	version, err := t.d.Touch(t.ctx, key, e.Meta, life, t.now())
	t.ok(when, err)
	e.Meta = driver.Meta{Life: life, Version: version}
	t.stored(when, key, e)
	return e
}

var touchCases = []testCase{{
	name:        "touch/live",
	explanation: "Touch must set the given expiry, keep created_at, and return the version then stored.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		for range 3 {
			t.advance(10 * time.Minute)
			e = t.touched("Touch", t.key("a"), e, t.later(e.Life, 10*time.Minute))
		}
		t.replaced("Replace of what Touch returned", t.key("a"), 2, e.Meta, e.Life)
	},
}, {
	name:        "touch/other-version",
	explanation: "A touch must land only on the value it was planned for, even if the life is the same: if the policy depends on the value, a touch planned for a login would keep a logout alive.",
	run: func(t *trial) {
		first := t.insert(t.key("a"), 1, t.life(time.Hour))
		second := t.replaced("Replace", t.key("a"), 2, first.Meta, first.Life)
		_, err := t.d.Touch(t.ctx, t.key("a"), first.Meta, t.later(first.Life, time.Hour), t.now())
		t.conflict("Touch planned before the value was overwritten", err, second.Meta)
		t.stored("after it", t.key("a"), second)
		t.touched("Touch of what the conflict found", t.key("a"), second, t.later(second.Life, time.Hour))
	},
}, {
	name:        "touch/earlier-expiry",
	explanation: "A driver has no policy: if the policy became tighter, a touch lowers the expiry, and the driver must write it.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(2*time.Hour))
		t.touched("Touch with an earlier expiry", t.key("a"), e, t.later(e.Life, -time.Hour))
	},
}, {
	name:        "touch/absent",
	explanation: "A touch must never create a record. Otherwise a logged-out session comes back, without its data.",
	run: func(t *trial) {
		was := driver.Meta{Life: t.life(time.Hour), Version: 1}
		_, err := t.d.Touch(t.ctx, t.key("never"), was, t.later(was.Life, time.Hour), t.now())
		t.notFound("Touch of a key never written", err)
		t.absent("after Touch of a key never written", t.key("never"))

		e := t.insert(t.key("deleted"), 1, t.life(time.Hour))
		t.ok("Delete", t.d.Delete(t.ctx, t.key("deleted")))
		_, err = t.d.Touch(t.ctx, t.key("deleted"), e.Meta, t.later(e.Life, time.Hour), t.now())
		t.notFound("Touch of a deleted record", err)
		t.absent("after Touch of a deleted record", t.key("deleted"))

		_, err = t.d.Touch(t.ctx, t.key("foreign"), driver.Meta{}, t.life(time.Hour), t.now())
		t.notFound("Touch that would adopt a key never written", err)
		t.absent("after Touch that would adopt a key never written", t.key("foreign"))
	},
}, {
	name:        "touch/dead",
	explanation: "A touch must never revive a record whose expiry has come, even if the store still holds it. Otherwise an idle session comes back.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		_, err := t.d.Touch(t.ctx, t.key("a"), e.Meta, t.later(e.Life, time.Hour), e.ExpiresAt)
		t.notFound("Touch of a record whose expiry is now", err)
		t.stored("after Touch of a dead record", t.key("a"), e)
		_, err = t.d.Touch(t.ctx, t.key("a"), e.Meta, t.later(e.Life, time.Hour), e.ExpiresAt-1)
		t.ok("Touch a millisecond before the expiry", err)
	},
}, {
	name:        "touch/dead-other",
	explanation: "A dead record is no conflict: like an absent one it must give ErrNotFound.",
	run: func(t *trial) {
		old, dead := t.regenerated(t.key("a"), t.life(3*time.Hour), t.life(time.Hour))
		_, err := t.d.Touch(t.ctx, t.key("a"), old.Meta, t.later(old.Life, time.Hour), dead.ExpiresAt)
		t.notFound("Touch where another generation is stored, and dead", err)
		t.stored("after it", t.key("a"), dead)
	},
}, {
	name:        "touch/other-expiry",
	explanation: "A touch must land only if the expiry is still the one it was planned from: otherwise a slow touch takes back what a later one gave, and the record dies early.",
	run: func(t *trial) {
		first := t.insert(t.key("a"), 1, t.life(time.Hour))
		second := t.touched("Touch", t.key("a"), first, t.later(first.Life, 2*time.Hour))
		_, err := t.d.Touch(t.ctx, t.key("a"), first.Meta, t.later(first.Life, time.Hour), t.now())
		t.conflict("Touch planned from the expiry before", err, second.Meta)
		t.stored("after it", t.key("a"), second)
		t.touched("Touch of what the conflict found", t.key("a"), second, t.later(second.Life, time.Hour))
	},
}, {
	name:        "touch/other-generation",
	explanation: "A touch must land only on the generation it was planned for, even if the next one has the same version and expiry. Otherwise it gives a new record the cap of an old one.",
	run: func(t *trial) {
		for _, by := range apart {
			key := t.key(by.String())
			l := t.life(time.Hour)
			old, next := t.regenerated(key, driver.Life{CreatedAt: l.CreatedAt.Add(-by), ExpiresAt: l.ExpiresAt}, l)
			_, err := t.d.Touch(t.ctx, key, old.Meta, t.later(old.Life, time.Hour), t.now())
			t.conflict("Touch planned for a generation older by "+by.String(), err, next.Meta)
			t.stored("after it", key, next)
		}
	},
}, {
	name:        "touch/adopts",
	explanation: "A touch must give a record without created_at the given one, and leave the value unchanged. Otherwise records from before this library never get a cap.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		l := t.life(time.Hour)
		l.CreatedAt = 0
		e := t.plant(t.key("expires"), 1, l)
		t.advance(time.Minute)
		t.touched("Touch that adopts a record with an expiry", t.key("expires"), e, t.life(time.Hour))
		e = t.plant(t.key("stays"), 2, driver.Life{})
		t.touched("Touch that adopts a record without", t.key("stays"), e, t.life(time.Hour))
	},
}, {
	name:        "touch/adopts-once",
	explanation: "Of two concurrent adoptions of a record one must fail, with what the other wrote. Otherwise created_at changes after the first one.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		for name, expiry := range map[string]driver.Instant{"expires": t.life(time.Hour).ExpiresAt, "stays": 0} {
			key := t.key(name)
			planted := t.plant(key, 1, driver.Life{ExpiresAt: expiry})
			first := t.touched("Touch that adopts", key, planted, t.life(time.Hour))
			_, err := t.d.Touch(t.ctx, key, planted.Meta, driver.Life{CreatedAt: t.now() + 1, ExpiresAt: t.at(t.now().Add(2 * time.Hour))}, t.now())
			t.conflict("Touch that would adopt the record again", err, first.Meta)
			t.stored("after it", key, first)
		}
	},
}, {
	name:        "touch/takes-back",
	explanation: "A touch to no created_at must take an adoption back: the record has the value and the expiry that another program wrote, and can be adopted again. Otherwise a mistaken adoption cannot be undone.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		for name, expiry := range map[string]driver.Instant{"expires": t.life(time.Hour).ExpiresAt, "stays": 0} {
			key := t.key(name)
			planted := t.plant(key, 1, driver.Life{ExpiresAt: expiry})
			e := t.touched("Touch that adopts", key, planted, t.life(30*time.Minute))
			_, err := t.d.Touch(t.ctx, key, planted.Meta, planted.Life, t.now())
			t.conflict("Touch planned before the adoption", err, e.Meta)
			began := time.Now()
			_, err = t.d.Touch(t.ctx, key, e.Meta, planted.Life, t.now())
			t.ok("Touch that takes the adoption back", err)
			took := time.Since(began)
			again := t.get(key)
			planted.Version = again.Version
			if late := again.ExpiresAt.Sub(planted.ExpiresAt); late > 0 && t.step >= time.Second && late <= 2*t.step+took {
				planted.ExpiresAt = again.ExpiresAt // rounded up, and counted from the second of the write
			}
			t.same("after it", again, planted)
			e = t.touched("Touch that adopts again", key, again, t.life(time.Hour))
			t.touched("Touch", key, e, t.later(e.Life, time.Hour))
		}
	},
}, {
	name:        "touch/foreign-overwrite",
	explanation: "A record that another program has overwritten has lost its created_at and is another generation. A touch must not land on it, and must return it unchanged.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		planted := t.plant(t.key("a"), 2, driver.Life{ExpiresAt: e.ExpiresAt})
		_, err := t.d.Touch(t.ctx, t.key("a"), e.Meta, t.later(e.Life, time.Hour), t.now())
		t.conflict("Touch of a record that another program has overwritten", err, planted.Meta)
		t.stored("after it", t.key("a"), planted)
	},
}}
