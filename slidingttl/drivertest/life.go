package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const day = 24 * time.Hour

var lifeCases = []testCase{{
	name:        "life/resolution",
	explanation: "Resolution must be a whole number of milliseconds, at least one, and never change: every expiry is computed from it.",
	run: func(t *trial) {
		if t.step < time.Millisecond || t.step%time.Millisecond != 0 {
			t.Errorf("Resolution is %v; want a whole number of milliseconds, at least one", t.step)
		}
		t.insert(t.key("a"), 1, t.life(time.Hour))
		if again := t.d.Resolution(); again != t.step {
			t.Errorf("Resolution was %v and is now %v", t.step, again)
		}
	},
}, {
	name:        "life/created-at",
	explanation: "created_at must be kept to the millisecond whatever the resolution: it names the record's generation, and the cap counts from it.",
	run: func(t *trial) {
		base := t.now() - t.now()%1000
		for _, ms := range []driver.Instant{0, 1, 10, 100, 120, 499, 500, 999} {
			key := t.key(ms.Time().Format("05.000"))
			created := base + ms - 5000
			e := t.insert(key, 1, driver.Life{CreatedAt: created, ExpiresAt: t.at(base.Add(time.Hour))})
			t.stored("after Insert", key, e)
			e = t.touched("Touch", key, e, t.later(e.Life, time.Hour))
			e = t.replaced("Replace", key, 2, e.Meta, t.later(e.Life, time.Hour))
			t.replaced("Replace with another created_at", key, 3, e.Meta, driver.Life{CreatedAt: created - 1, ExpiresAt: e.ExpiresAt})
		}
	},
}, {
	name:        "life/expiry-exact",
	explanation: "An expiry that is a multiple of the resolution must be stored unchanged. Rounded down, the record dies before its promise; rounded up, it outlives its cap.",
	run: func(t *trial) {
		base := t.at(t.now().Add(time.Hour))
		for i := range 12 {
			expiry := base.Add(time.Duration(i) * t.step)
			key := t.key(expiry.Time().Format("150405.000"))
			e := t.insert(key, 1, driver.Life{CreatedAt: t.now(), ExpiresAt: expiry})
			t.stored("after Insert", key, e)
			e = t.touched("Touch", key, e, t.later(e.Life, time.Duration(i+1)*t.step))
			t.replaced("Replace", key, 2, e.Meta, t.later(e.Life, time.Duration(i+1)*t.step))
		}
	},
}, {
	name:        "life/far",
	explanation: "Long lives must be kept exactly. Stores interpret a time to live differently from 30 days on, and when seconds exceed 31 bits; a record would die at once, or never.",
	run: func(t *trial) {
		for _, ttl := range []time.Duration{
			time.Minute, day, 30*day - 2*time.Second, 30*day - time.Second, 30 * day, 30*day + time.Second,
			90 * day, 365 * day, 3650 * day, 16 * 365 * day,
		} {
			key := t.key(ttl.String())
			e := t.insert(key, 1, t.life(ttl))
			t.stored("Insert with a life of "+ttl.String(), key, e)
			e = t.touched("Touch back to a life of an hour from "+ttl.String(), key, e, t.life(time.Hour))
			e = t.touched("Touch to a life of "+ttl.String(), key, e, t.life(ttl))
			t.replaced("Replace with a life of "+ttl.String(), key, 2, e.Meta, t.life(ttl+time.Hour))
		}
	},
}, {
	name:        "life/farthest",
	explanation: "A life of centuries, as a long grace without a cap makes it, must be kept exactly, or be an *InvalidError. An instant that wraps is a record that is dead at once.",
	run: func(t *trial) {
		for i, years := range []time.Duration{90, 140, 250} {
			key, l := t.key(fmt.Sprint(years)), t.life(years*365*day)
			version, err := t.d.Insert(t.ctx, key, value(i), l, t.now())
			if errors.Is(err, driver.ErrInvalid) {
				continue
			}
			t.ok(fmt.Sprintf("Insert with a life of %d years", years), err)
			t.stored(fmt.Sprintf("a life of %d years", years), key, driver.Entry[Value]{Value: value(i), Meta: driver.Meta{Life: l, Version: version}})
		}
	},
}, {
	name:        "life/absolute",
	explanation: "An expiry is an instant, not a duration that starts when the write arrives: two clients whose clocks differ, or one that is slow, would store different expiries for one promise.",
	run: func(t *trial) {
		for _, ahead := range []time.Duration{-10 * time.Second, 10 * time.Second, 29 * day, 89 * day} {
			key := t.key(ahead.String())
			expiry := t.at(t.now().Add(120 * day))
			now := t.now().Add(ahead)
			version, err := t.d.Insert(t.ctx, key, value(1), driver.Life{CreatedAt: now, ExpiresAt: expiry}, now)
			t.ok("Insert by a clock that is off by "+ahead.String(), err)
			e := driver.Entry[Value]{Value: value(1), Meta: driver.Meta{Life: driver.Life{CreatedAt: now, ExpiresAt: expiry}, Version: version}}
			t.stored("after Insert by a clock that is off by "+ahead.String(), key, e)
			life := t.later(e.Life, time.Hour)
			e.Version, err = t.d.Touch(t.ctx, key, e.Meta, life, now)
			t.ok("Touch by a clock that is off by "+ahead.String(), err)
			e.Life = life
			t.stored("after Touch by a clock that is off by "+ahead.String(), key, e)
		}
	},
}, {
	name:        "life/near",
	explanation: "A life as short as the resolution must be kept exactly, or be over when the backend's clock says so: a time to live rounded down to zero means \"never\" to some stores and \"dead\" to others.",
	run: func(t *trial) {
		// The backend's clock is just past a step, so the next step comes after the write.
		for i, steps := range []time.Duration{1, 2} {
			t.until(t.at(driver.Floor(t.backendNow()) + 1))
			key := t.key(string(rune('a' + i)))
			l := t.life(0)
			l.ExpiresAt = t.at(t.now() + 1).Add((steps - 1) * t.step)
			e := t.insert(key, 1, l)
			got, err := t.d.Get(t.ctx, key)
			switch {
			case err == nil:
				t.same("after Insert with a life of the resolution", got, e)
			case driver.Floor(t.backendNow()) < l.ExpiresAt:
				t.Errorf("Get: %v before the expiry", err)
			default:
				t.notFound("Get after the expiry", err)
			}
		}
	},
}, {
	name:        "life/kept-to-the-end",
	explanation: "The store itself must keep a record until its expiry. A record that is deleted early breaks the promise of every read.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(3*t.unit))
		t.until(e.ExpiresAt.Add(-t.margin))
		t.stored("shortly before the expiry", t.key("a"), e)
		t.until(e.ExpiresAt)
		e = t.insert(t.key("a"), 2, t.life(time.Hour))
		t.stored("after Insert at the expiry", t.key("a"), e)
	},
}, {
	name:        "life/touch-is-stored",
	explanation: "A touch must reach the store's own expiry, not only a field beside it. Otherwise a record in use is deleted at the expiry it was created with.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(2*t.unit))
		e = t.touched("Touch", t.key("a"), e, t.later(e.Life, 3*t.unit))
		t.until(e.ExpiresAt.Add(-t.margin))
		t.stored("past the first expiry, before the one touched", t.key("a"), e)
	},
}, {
	name:        "life/replace-is-stored",
	explanation: "An overwrite must reach the store's own expiry: some stores keep the old one, or drop it, when a value is written.",
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(2*t.unit))
		e = t.replaced("Replace", t.key("a"), 2, e.Meta, t.later(e.Life, 3*t.unit))
		t.until(e.ExpiresAt.Add(-t.margin))
		t.stored("past the first expiry, before the one written", t.key("a"), e)
	},
}, {
	name:        "life/adoption-is-stored",
	explanation: "Adopting a record that never expired must give it an expiry the store acts on, and adopting one that was about to expire must keep it alive.",
	needs:       []Feature{Plant},
	run: func(t *trial) {
		e := t.plant(t.key("a"), 1, driver.Life{ExpiresAt: t.at(t.now().Add(2 * t.unit))})
		e = t.touched("Touch that adopts", t.key("a"), e, t.life(5*t.unit))
		t.until(e.ExpiresAt.Add(-t.margin))
		t.stored("past the planted expiry, before the one touched", t.key("a"), e)
	},
}}
