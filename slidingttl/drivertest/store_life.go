package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var storeLifeCases = []testCase{{
	name:        "store/exact",
	explanation: "Promise 1: without slack every access writes exactly its deadline, the idle grace from then or the cap, whichever comes first.",
	run: func(t *trial) {
		for _, p := range []slidingttl.Policy{exact, {IdleGrace: 30 * day, MaxLifetime: 90 * day}} {
			s, key := t.store(p), t.key(p.MaxLifetime.String())
			t.upsert(s, key, 1)
			c := t.now()
			t.has("after Upsert", key, c, c.Add(p.IdleGrace))
			for step := p.IdleGrace / 3; t.now().Add(step) < p.Cap(c); {
				t.advance(step)
				t.reads("a read at "+t.now().Sub(c).String(), s, key, 1)
				t.has("after a read at "+t.now().Sub(c).String(), key, c, p.Deadline(c, t.now()))
			}
		}
	},
}, {
	name:        "store/same-step",
	explanation: "Promise 2: an access in the same step of the store's clock as the last touch has nothing to write.",
	run: func(t *trial) {
		spy := t.spied()
		s, key := t.open(spy, exact, slidingttl.Options[Value]{}), t.key("a")
		t.upsert(s, key, 1)
		t.clock.set((t.at(t.now().Add(time.Minute)) + 1).Time()) // at the start of a step
		for range 5 {
			t.reads("reads within one step", s, key, 1)
		}
		t.clock.set(t.at(t.now()).Time()) // at its end
		t.reads("a read at the end of the step", s, key, 1)
		if n := spy.count(callTouch); n != 1 {
			t.Errorf("reads within one step of the store's clock cost %d touches; want 1", n)
		}
	},
}, {
	name:        "store/not-due",
	explanation: "Promise 2: a touch is written only when the stored expiry does not keep the access's promise. With slack, a hot key costs one write in each slack, and none at its cap. Otherwise reads are billed as writes.",
	run: func(t *trial) {
		spy := t.spied()
		s, key := t.open(spy, slack, slidingttl.Options[Value]{}), t.key("a")
		t.upsert(s, key, 1)
		c := t.now()
		for t.now().Add(20*time.Second) < slack.Cap(c) {
			t.advance(20 * time.Second)
			t.reads("a read of a hot key", s, key, 1)
			if e := t.get(key); e.ExpiresAt < slack.Deadline(c, t.now()) {
				t.Fatalf("a read at %v left %s; it promised until %v", t.now().Sub(c), describe(e.Life), slack.Deadline(c, t.now()).Time())
			}
		}
		// Touches stop when the expiry has come to the cap.
		most := int((slack.MaxLifetime-slack.IdleGrace)/slack.Slack) + 1
		if n := spy.count(callTouch); n == 0 || n > most {
			t.Errorf("%d reads cost %d touches; want at least one and at most %d", int(slack.MaxLifetime/(20*time.Second)), n, most)
		}
		t.has("at the end", key, c, slack.Cap(c))
		before := spy.writes()
		for range 5 {
			t.reads("a read at the cap", s, key, 1)
		}
		if n := spy.writes() - before; n != 0 {
			t.Errorf("5 reads with the expiry at the cap cost %d writes; want none", n)
		}
	},
}, {
	name:        "store/slack",
	explanation: "Promises 3 and 4: slack is added to the expiry that a touch stores. Subtracted from the promise, records die early; left out, it saves nothing.",
	run: func(t *trial) {
		for _, p := range []slidingttl.Policy{slack, long} {
			s, key := t.store(p), t.key(p.MaxLifetime.String())
			t.upsert(s, key, 1)
			c := t.now()
			t.has("after Upsert", key, c, c.Add(p.IdleGrace+p.Slack))
			t.advance(p.Slack - p.Slack/8) // a store's own share of the slack is a sixteenth at most
			t.reads("a read as late as slack allows", s, key, 1)
			t.has("after a read that is not due", key, c, c.Add(p.IdleGrace+p.Slack))
			t.advance(p.Slack/8 + t.step)
			t.reads("a read a step later than slack allows", s, key, 1)
			t.has("after a read that is due", key, c, p.Expiry(c, t.now()))
		}
	},
}, {
	name:        "store/kept-alive",
	explanation: "Promises 3 and 4: the store must keep a record until the deadline of its last access, and a read after that finds nothing.",
	run: func(t *trial) {
		p := slidingttl.Policy{IdleGrace: 3 * t.unit, MaxLifetime: 20 * t.unit}
		s, key := t.store(p), t.key("a")
		t.upsert(s, key, 1)
		t.wait(t.unit)
		t.reads("a read before the first deadline", s, key, 1)
		deadline := t.now().Add(p.IdleGrace)
		t.until(deadline.Add(-t.margin))
		if _, err := s.Peek(t.ctx, key); err != nil {
			t.Errorf("shortly before the deadline of the last access: Peek: %v", err)
		}
		t.until(t.at(deadline))
		t.dead("at the deadline of the last access", s, key)
		t.ok("Insert after death", s.Insert(t.ctx, key, value(2)))
		t.reads("after a new Insert", s, key, 2)
	},
}, {
	name:        "store/cap-in-time",
	explanation: "Promises 3 and 4: a record that is read all the time lives to its cap, and not beyond.",
	run: func(t *trial) {
		p := slidingttl.Policy{IdleGrace: 3 * t.unit, MaxLifetime: 5 * t.unit}
		s, key := t.store(p), t.key("a")
		t.upsert(s, key, 1)
		limit := p.Cap(t.now())
		for t.now().Add(t.unit) <= limit.Add(-t.margin) {
			t.wait(t.unit)
			if t.now() < limit {
				t.reads("a hot key before its cap", s, key, 1)
			}
		}
		t.until(limit)
		t.dead("a hot key at its cap", s, key)
	},
}, {
	name:        "store/cap",
	explanation: "Promise 4: a record past its cap is never read, whatever expiry the store still holds, and its key is free for a new life.",
	run: func(t *trial) {
		s := t.store(exact)
		for _, by := range []string{"insert", "upsert"} {
			key := t.key(by)
			old := t.insert(key, 1, t.life(10*24*time.Hour))
			t.advance(exact.MaxLifetime - time.Millisecond)
			if _, err := s.Peek(t.ctx, key); err != nil {
				t.Errorf("a millisecond before the cap: Peek: %v", err)
			}
			t.advance(time.Millisecond)
			t.dead("at the cap", s, key)
			t.stored("after calls that must write nothing", key, old)
			if by == "insert" {
				t.ok("Insert over a record past its cap", s.Insert(t.ctx, key, value(2)))
			} else {
				t.upsert(s, key, 2)
			}
			t.has("after a new life has begun", key, t.now(), t.now().Add(exact.IdleGrace))
			t.reads("after a new life has begun", s, key, 2)
		}
	},
}, {
	name:        "store/late-deletion",
	explanation: "Promise 4: a store that deletes late is not believed. An expired record is not read, and does not block a new life.",
	run: func(t *trial) {
		s := t.store(exact)
		for _, by := range []string{"insert", "upsert"} {
			key := t.key(by)
			t.upsert(s, key, 1)
			end := t.at(t.now().Add(exact.IdleGrace))
			t.clock.set((end - 1).Time())
			if _, err := s.Peek(t.ctx, key); err != nil {
				t.Errorf("a millisecond before the expiry: Peek: %v", err)
			}
			t.clock.set(end.Time())
			t.dead("at the expiry", s, key)
			if by == "insert" {
				t.ok("Insert over an expired record", s.Insert(t.ctx, key, value(2)))
			} else {
				t.upsert(s, key, 2)
			}
			t.has("after a new life has begun", key, end, end.Add(exact.IdleGrace))
			t.reads("after a new life has begun", s, key, 2)
		}
	},
}, {
	name:        "store/created-at-kept",
	explanation: "Promise 6: overwriting a live record keeps its created_at, or saving a session restarts its max lifetime. A new life has a new created_at.",
	run: func(t *trial) {
		s, key := t.store(exact), t.key("a")
		t.upsert(s, key, 1)
		c := t.now()
		for i := range 3 {
			t.advance(20 * time.Minute)
			t.upsert(s, key, i)
			t.has("after Upsert over a live record", key, c, exact.Deadline(c, t.now()))
			t.advance(10 * time.Minute)
			_, err := s.Update(t.ctx, key, func(v Value) (Value, error) { return value(i + 10), nil })
			t.ok("Update", err)
			t.has("after Update", key, c, exact.Deadline(c, t.now()))
			t.reads("after Update", s, key, i+10)
		}
		t.ok("Delete", s.Delete(t.ctx, key))
		t.dead("after Delete", s, key)
		t.upsert(s, key, 5)
		t.has("after Upsert of a deleted key", key, t.now(), t.now().Add(exact.IdleGrace))
	},
}, {
	name:        "store/promote",
	explanation: "A policy with Promote: a record that is never read is gone after its idle grace; one that is read is kept to its cap, at the cost of one touch.",
	run: func(t *trial) {
		spy := t.spied()
		s := t.open(spy, promote, slidingttl.Options[Value]{})
		t.upsert(s, t.key("read"), 1)
		t.upsert(s, t.key("unread"), 2)
		c := t.now()
		t.has("after Upsert", t.key("read"), c, c.Add(promote.IdleGrace))
		for range 11 {
			t.advance(10 * time.Minute)
			t.reads("a read", s, t.key("read"), 1)
			t.has("after a read", t.key("read"), c, promote.Cap(c))
		}
		if n := spy.count(callTouch); n != 1 {
			t.Errorf("11 reads cost %d touches; want 1", n)
		}
		t.dead("never read", s, t.key("unread"))
		t.advance(10 * time.Minute)
		t.dead("at its cap", s, t.key("read"))
	},
}, {
	name:        "store/tightened",
	explanation: "Promise 7: a policy made tighter applies on the next access, which brings an expiry far beyond it down.",
	run: func(t *trial) {
		loose := t.store(slidingttl.Policy{IdleGrace: 10 * time.Hour, MaxLifetime: 20 * time.Hour})
		s, key := t.store(exact), t.key("a")
		t.upsert(loose, key, 1)
		c := t.now()
		t.advance(10 * time.Minute)
		t.reads("a read by the tighter policy", s, key, 1)
		skew := exact.Expiry(c, t.now()).Add(time.Minute) // the default MaxSkew of a store with a clock of its own
		t.has("after it", key, c, skew)
		t.clock.set(t.at(skew).Time())
		t.dead("at the tighter expiry", s, key)

		t.upsert(loose, t.key("hot"), 1)
		c = t.now()
		for t.now() < exact.Cap(c).Add(-10*time.Minute) {
			t.advance(10 * time.Minute)
			t.reads("a read by the tighter policy", s, t.key("hot"), 1)
		}
		t.clock.set(exact.Cap(c).Time())
		t.dead("at the tighter cap", s, t.key("hot"))
	},
}, {
	name:        "store/insert",
	explanation: "Insert answers ErrExists over a live record, to the end of its life, and leaves it as it is.",
	run: func(t *trial) {
		s, key := t.store(exact), t.key("a")
		t.ok("Insert", s.Insert(t.ctx, key, value(1)))
		e := t.get(key)
		t.clock.set((e.ExpiresAt - 1).Time())
		if err := s.Insert(t.ctx, key, value(2)); !errors.Is(err, slidingttl.ErrExists) {
			t.Errorf("Insert over a live record: the error is %v; want %v", err, slidingttl.ErrExists)
		}
		t.stored("after it", key, e)
	},
}, {
	name:        "store/touch",
	explanation: "Touch by key alone must keep a record alive as a read does, within its cap, and never one that is absent or dead.",
	run: func(t *trial) {
		for _, p := range []slidingttl.Policy{exact, slack, promote} {
			s, key := t.store(p), t.key(fmt.Sprint(p))
			if _, err := s.Touch(t.ctx, key); !errors.Is(err, slidingttl.ErrNotFound) {
				t.Errorf("Touch of an absent key: the error is %v; want %v", err, slidingttl.ErrNotFound)
			}
			t.absent("after Touch of an absent key", key)
			t.upsert(s, key, 1)
			c := t.now()
			for t.now().Add(20*time.Minute) < p.Cap(c) {
				t.advance(20 * time.Minute)
				until, err := s.Touch(t.ctx, key)
				t.ok("Touch", err)
				t.has("after Touch at "+t.now().Sub(c).String(), key, c, p.Expiry(c, t.now()))
				if want := min(t.at(p.Expiry(c, t.now())), p.Cap(c)); driver.Floor(until) != want {
					t.Errorf("Touch at %v returned %v; want %v", t.now().Sub(c), until, want.Time())
				}
			}
			t.reads("after touches", s, key, 1)
			t.clock.set(p.Cap(c).Time())
			t.dead("at the cap", s, key)
		}
	},
}, {
	name:        "store/touch-entry",
	explanation: "A touch of a peeked record must land on that record only: not on the key's next life, nor on a deleted one.",
	run: func(t *trial) {
		s, key := t.store(exact), t.key("a")
		t.upsert(s, key, 1)
		c := t.now()
		t.advance(time.Minute)
		peeked, err := s.Peek(t.ctx, key)
		t.ok("Peek", err)
		t.has("after Peek", key, c, c.Add(exact.IdleGrace))
		_, err = s.TouchEntry(t.ctx, key, peeked)
		t.ok("TouchEntry", err)
		t.has("after TouchEntry", key, c, exact.Deadline(c, t.now()))
		t.ok("Delete", s.Delete(t.ctx, key))
		t.advance(time.Minute)
		_, err = s.TouchEntry(t.ctx, key, peeked)
		t.ok("TouchEntry of a deleted record", err)
		t.absent("after TouchEntry of a deleted record", key)
		t.upsert(s, key, 2)
		next := t.get(key)
		t.advance(time.Minute)
		_, err = s.TouchEntry(t.ctx, key, peeked)
		t.ok("TouchEntry of an earlier life", err)
		t.stored("after TouchEntry of an earlier life", key, next)
	},
}, {
	name:        "store/get-multi",
	explanation: "GetMulti is a read of each key: it returns the live records unchanged, and touches those that are due.",
	run: func(t *trial) {
		s := t.store(exact)
		var keys []string
		for i := range 12 {
			keys = append(keys, t.key(fmt.Sprint(i)))
			t.upsert(s, keys[i], i)
		}
		old := t.insert(t.key("past its cap"), 20, driver.Life{CreatedAt: t.now().Add(-exact.MaxLifetime), ExpiresAt: t.at(t.now().Add(time.Hour))})
		c := t.now()
		t.ok("Delete", s.Delete(t.ctx, keys[3]))
		t.advance(10 * time.Minute)
		asked := append([]string{t.key("never"), t.key("past its cap")}, keys...)
		peeked, err := s.PeekMulti(t.ctx, asked)
		t.ok("PeekMulti", err)
		if len(peeked) != len(keys)-1 {
			t.Errorf("PeekMulti returned %d records; want %d", len(peeked), len(keys)-1)
		}
		for k, e := range peeked {
			t.stored("after PeekMulti", k, e)
		}
		got, err := s.GetMulti(t.ctx, asked)
		t.ok("GetMulti", err)
		if len(got) != len(keys)-1 {
			t.Errorf("GetMulti returned %d records; want %d", len(got), len(keys)-1)
		}
		for i, k := range keys {
			if i == 3 {
				continue
			}
			if v, ok := got[k]; !ok || !v.equal(value(i)) {
				t.Errorf("GetMulti returned %s for a live record (there: %v); want %s", spell(v), ok, spell(value(i)))
			}
			t.has("after GetMulti", k, c, exact.Deadline(c, t.now()))
		}
		t.stored("a record past its cap, after GetMulti", t.key("past its cap"), old)
		t.absent("a deleted record, after GetMulti", keys[3])
	},
}, {
	name:        "store/driver-clock",
	explanation: "A store without a clock of its own uses its driver's: records must live and die by it.",
	needs:       []Feature{Clock},
	run: func(t *trial) {
		p := slidingttl.Policy{IdleGrace: 3 * t.unit, MaxLifetime: 20 * t.unit}
		s, err := slidingttl.New(t.d, p, &slidingttl.Options[Value]{TouchWait: touchWait})
		t.ok("slidingttl.New", err)
		t.cleanup(func() { t.ok("Close", s.Close(t.ctx)) })
		before := driver.Floor(t.backendNow())
		t.upsert(s, t.key("a"), 1)
		e := t.get(t.key("a"))
		after := driver.Ceil(t.backendNow())
		off := t.margin + t.step
		if e.CreatedAt < before.Add(-off) || e.CreatedAt > after.Add(off) {
			t.Errorf("created_at is %v by the driver's clock; the store's said %v to %v", e.CreatedAt.Time(), before.Time(), after.Time())
		}
		t.until(e.CreatedAt.Add(p.IdleGrace - t.unit))
		t.reads("a read before the deadline", s, t.key("a"), 1)
		if later := t.get(t.key("a")); later.ExpiresAt <= e.ExpiresAt || later.CreatedAt != e.CreatedAt {
			t.Errorf("a read before the deadline left %s; it was %s", describe(later.Life), describe(e.Life))
		}
		t.until(t.get(t.key("a")).ExpiresAt.Add(t.margin + t.step))
		t.dead("after the deadline", s, t.key("a"))
	},
}}
