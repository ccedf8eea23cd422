package drivertest

import (
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var clockCases = []testCase{{
	name:        "clock/bounds",
	explanation: "The time must lie between the clock's bounds, or a read judges by a wrong time: it returns a dead record, or denies a live one.",
	needs:       []Feature{Clock},
	run: func(t *trial) {
		c := capability[driver.Clock](t)
		for range 100 {
			before := c.Now()
			earliest, latest := c.Bounds()
			after := c.Now()
			if after.Before(before) {
				t.Errorf("Now went back by %v", before.Sub(after))
			}
			if earliest > latest {
				t.Errorf("Bounds are %d and %d: the earlier is the later", earliest, latest)
			}
			if earliest > driver.Ceil(after) || latest < driver.Floor(before) {
				t.Errorf("Bounds are %d and %d while Now was %d, then %d", earliest, latest, before.UnixMilli(), after.UnixMilli())
			}
		}
	},
}, {
	name:        "clock/agrees",
	explanation: "The driver's clock must be the store's, so that callers whose clocks are wrong agree with the store that deletes their records.",
	needs:       []Feature{Clock},
	run: func(t *trial) {
		c := capability[driver.Clock](t)
		compare := func(when string) {
			before := t.backendNow()
			now := c.Now()
			after := t.backendNow()
			if now.Before(before.Add(-t.margin-t.step)) || now.After(after.Add(t.margin+t.step)) {
				t.Errorf("%s: the driver's clock says %v, the store's %v", when, now.UTC(), after.UTC())
			}
		}
		t.insert(t.key("a"), 1, t.life(time.Hour)) // some learn the time from an answer
		compare("at the start")
		t.wait(2 * t.unit)
		t.get(t.key("a"))
		compare("after a while")
	},
}, {
	name:        "clock/told",
	explanation: "Promise 5: once Get has answered that a record is dead by the driver's time, no Touch or Replace that was held up, and has an earlier time, may revive it. Otherwise the record is found, not found, and found again.",
	needs:       []Feature{Clock},
	run: func(t *trial) {
		t.ctx = t.byStore // by another clock the caller's time would decide
		for _, w := range stoppedWrites {
			if w.name != "Touch" && w.name != "Replace" {
				continue
			}
			key := t.key(w.name)
			was := t.insert(key, original, t.life(t.lateness()))
			before := t.clock.Now()
			t.until(was.ExpiresAt.Add(max(t.step, 20*time.Millisecond)))
			told, err := t.d.Get(t.ctx, key)
			if err != nil {
				t.notFound("Get of a dead record", err)
			}
			t.clock.set(before)
			t.notFound("a "+w.name+" that was held up", w.call(t.ctx, t, key, was.Meta))
			t.clock.set(t.backendNow())
			if is, err := t.d.Get(t.ctx, key); err == nil && is.Meta != told.Meta {
				t.Errorf("after a %s that was held up: %s; before it was %s", w.name, describe(is.Life), describe(told.Life))
			}
		}
	},
}, {
	name:        "clock/planned",
	explanation: "Promises 3 and 14: where the caller's time and the store's disagree whether a first expiry has passed, it must not be written, for the store's clock was set. Otherwise an access ends the record that it was to keep, or a retired record lives on.",
	needs:       []Feature{Clock},
	run: func(t *trial) {
		if has[driver.Local[Value]](t.b) {
			return // its clock is the caller's
		}
		now := t.now()
		for _, c := range []struct {
			call string
			at   driver.Instant // the caller's time
			left time.Duration
		}{
			{"Touch", now.Add(-time.Hour), time.Minute},
			{"Touch", now.Add(time.Hour), -time.Minute},
			{"Replace", now.Add(-time.Hour), time.Minute},
		} {
			when := fmt.Sprintf("a %s by a caller's time %v off the store's", c.call, c.at.Sub(now))
			key := t.key(when)
			was := t.insert(key, original, driver.Life{CreatedAt: now})
			life, err := driver.Life{CreatedAt: now, ExpiresAt: t.at(c.at.Add(c.left))}, error(nil)
			if c.call == "Touch" {
				_, err = t.d.Touch(t.byStore, key, was.Meta, life, c.at)
			} else {
				_, err = t.d.Replace(t.byStore, key, value(stopped), was.Meta, life, c.at)
			}
			t.conflict(when, err, was.Meta)
			t.stored(when, key, was)
		}
	},
}}
