package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// reading runs s.Get in a goroutine, for a read whose touch is delayed.
func (t *trial) reading(ctx context.Context, s *slidingttl.Store[Value], key string, n int) (done func()) {
	result := make(chan error, 1)
	go func() {
		v, err := s.Get(ctx, key)
		if err == nil && !v.equal(value(n)) {
			err = errors.New("it returns " + spell(v))
		}
		result <- err
	}()
	return func() {
		if err := <-result; err != nil {
			t.Errorf("a read whose touch was held up: %v; want the value that was read", err)
		}
	}
}

var storeTouchCases = []testCase{{
	name:        "store/delete-during-touch",
	explanation: "Promise 5: a record deleted between a read and its touch stays deleted, and the read, whose touch has found that, returns not found: a logged-out session must neither come back nor serve one more request.",
	run: func(t *trial) {
		spy := t.spied()
		s, key := t.open(spy, exact, slidingttl.Options[Value]{}), t.key("a")
		t.upsert(s, key, 1)
		t.advance(time.Minute)
		touch := t.hold(spy, callTouch)
		read := make(chan error, 1)
		go func() { _, err := s.Get(t.ctx, key); read <- err }()
		touch.arrives()
		t.ok("Delete", t.store(exact).Delete(t.ctx, key))
		touch.release()
		t.notFound("a read whose touch found the record gone", <-read)
		t.absent("after a Delete that came before a touch", key)
		if st := s.Stats(); st.TouchLost != 1 || st.TouchFails != 0 {
			t.Errorf("Stats counts %d touches lost and %d failed; want 1 and 0", st.TouchLost, st.TouchFails)
		}
	},
}, {
	name:        "store/new-life-during-touch",
	explanation: "Promise 6: a touch planned for one life of a key must not land on the next. Otherwise a new login gets the idle limit and the cap of the old one.",
	run: func(t *trial) {
		spy := t.spied()
		s, key := t.open(spy, exact, slidingttl.Options[Value]{}), t.key("a")
		other := t.store(slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour})
		t.upsert(s, key, 1)
		t.advance(time.Minute)
		touch := t.hold(spy, callTouch)
		done := t.reading(t.ctx, s, key, 1)
		touch.arrives()
		t.ok("Delete", other.Delete(t.ctx, key))
		t.upsert(other, key, 2)
		next := t.get(key)
		touch.release()
		done()
		t.stored("after a touch planned for the life before", key, next)
	},
}, {
	name:        "store/overwritten-during-touch",
	explanation: "Promises 6 and 7: an overwrite between a read and its touch keeps its value, and the touch still lands.",
	run: func(t *trial) {
		spy := t.spied()
		s, key := t.open(spy, exact, slidingttl.Options[Value]{}), t.key("a")
		t.upsert(s, key, 1)
		c := t.now()
		t.advance(time.Minute)
		touch := t.hold(spy, callTouch)
		done := t.reading(t.ctx, s, key, 1)
		touch.arrives()
		e := t.get(key)
		e = t.replaced("Replace", key, 2, e.Meta, e.Life)
		touch.release()
		done()
		t.has("after the touch", key, c, exact.Deadline(c, t.now()))
		if got := t.get(key).Value; !got.equal(e.Value) {
			t.Errorf("after the touch the record holds %s; want %s", spell(got), spell(e.Value))
		}
	},
}, {
	name:        "store/touched-during-touch",
	explanation: "Promise 7: a slow touch must not take back what a later one gave. Otherwise the record dies before its promise.",
	run: func(t *trial) {
		spy := t.spied()
		slow, fast, key := t.open(spy, exact, slidingttl.Options[Value]{}), t.store(exact), t.key("a")
		t.upsert(slow, key, 1)
		c := t.now()
		t.advance(time.Minute)
		touch := t.hold(spy, callTouch)
		done := t.reading(t.ctx, slow, key, 1)
		touch.arrives()
		t.advance(10 * time.Minute)
		t.reads("a later read", fast, key, 1)
		e := t.get(key)
		touch.release()
		done()
		t.has("after the slow touch", key, c, exact.Deadline(c, t.now()))
		t.stored("after the slow touch", key, e)
	},
}, {
	name:        "store/upsert-during-upsert",
	explanation: "Promises 6 and 7: an upsert planned from what its store remembers must notice that the record has since been touched, or deleted and created again.",
	run: func(t *trial) {
		s, other, key := t.store(exact), t.store(exact), t.key("a")
		t.upsert(s, key, 1)
		c := t.now()
		t.advance(time.Minute)
		t.reads("a read by another store", other, key, 1)
		t.upsert(s, key, 2)
		t.has("after Upsert", key, c, exact.Deadline(c, t.now()))
		t.ok("Delete by another store", other.Delete(t.ctx, key))
		t.advance(time.Minute)
		t.upsert(other, key, 3)
		c = t.now()
		t.advance(time.Minute)
		t.upsert(s, key, 4)
		t.has("after Upsert of a key created again", key, c, exact.Deadline(c, t.now()))
		t.ok("Delete by another store", other.Delete(t.ctx, key))
		t.upsert(s, key, 5)
		t.has("after Upsert of a key deleted", key, t.now(), t.now().Add(exact.IdleGrace))
	},
}, {
	name:        "store/one-touch",
	explanation: "Promise 9: concurrent reads of a key share one touch, and a caller who leaves does not fail it for the others.",
	run: func(t *trial) {
		const readers = 16
		spy := t.spied()
		s, key := t.open(spy, exact, slidingttl.Options[Value]{}), t.key("a")
		t.upsert(s, key, 1)
		c := t.now()
		t.advance(time.Minute)
		touch := t.hold(spy, callTouch)
		first, leave := context.WithCancel(t.ctx)
		defer leave()
		firstDone := t.reading(first, s, key, 1)
		touch.arrives()
		var wg sync.WaitGroup
		for range readers {
			done := t.reading(t.ctx, s, key, 1)
			wg.Go(done)
		}
		leave()
		firstDone()
		touch.release()
		wg.Wait()
		t.has("after concurrent reads", key, c, exact.Deadline(c, t.now()))
		if n := spy.count(callTouch); n != 1 {
			t.Errorf("%d concurrent reads cost %d touches; want 1", readers+1, n)
		}
	},
}, {
	name:        "store/touch-fails",
	explanation: "Promise 8: a read whose touch fails returns the value that was read; the failure is counted and handed to the hook, and to the caller if it asked to be strict.",
	run: func(t *trial) {
		spy := t.spied()
		broken := errors.New("the touch's own error")
		failures := make(chan error, 10)
		s := t.open(spy, exact, slidingttl.Options[Value]{OnTouchError: func(_ context.Context, _ string, err error) { failures <- err }})
		strict := t.open(spy, exact, slidingttl.Options[Value]{Strict: true})
		key := t.key("a")
		t.upsert(s, key, 1)
		e := t.get(key)
		t.advance(time.Minute)
		spy.on(callTouch, func(context.Context) error { return broken })
		t.reads("a read whose touch fails", s, key, 1)
		var err error
		select {
		case err = <-failures:
		case <-time.After(soon):
		}
		if !errors.Is(err, broken) || len(failures) > 0 || s.Stats().TouchFails != 1 {
			t.Errorf("the hook got %v and %d more, Stats counts %d failures; want the one", err, len(failures), s.Stats().TouchFails)
		}
		_, err = strict.Get(t.ctx, key)
		if !errors.Is(err, broken) {
			t.Errorf("a strict read whose touch fails: the error is %v; want %v", err, broken)
		}
		t.quiet("a strict read whose touch fails", err)
		t.stored("after touches that failed", key, e)
		spy.on(callTouch, nil)
		t.reads("a read whose touch works again", strict, key, 1)
		t.has("after it", key, e.CreatedAt, exact.Deadline(e.CreatedAt, t.now()))
	},
}, {
	name:        "store/background",
	explanation: "Promise 11: touches handed to the background must reach the store, at the latest when Close returns.",
	run: func(t *trial) {
		s := t.open(t.d, exact, slidingttl.Options[Value]{Touches: slidingttl.Background})
		keys := make([]string, 20)
		for i := range keys {
			keys[i] = t.key(string(rune('a' + i)))
			t.upsert(s, keys[i], i)
		}
		c := t.now()
		for range 3 {
			t.advance(5 * time.Minute)
			for i, k := range keys {
				t.reads("a read with its touch in the background", s, k, i)
			}
		}
		if _, err := s.GetMulti(t.ctx, keys); err != nil {
			t.Errorf("GetMulti with touches in the background: %v", err)
		}
		t.ok("Close", s.Close(t.ctx))
		for _, k := range keys {
			t.has("after Close", k, c, exact.Deadline(c, t.now()))
		}
		if _, err := s.Get(t.ctx, keys[0]); !errors.Is(err, slidingttl.ErrClosed) {
			t.Errorf("a read after Close: the error is %v; want %v", err, slidingttl.ErrClosed)
		}
	},
}, {
	name:        "store/close-gives-up",
	explanation: "Promise 11: a Close whose context ends says how many touches it gave up, and leaves nothing running.",
	run: func(t *trial) {
		spy := t.spied()
		s, err := slidingttl.New(spy, exact, &slidingttl.Options[Value]{Touches: slidingttl.Background, Workers: 1, Now: t.clock.Now})
		t.ok("slidingttl.New", err)
		t.upsert(s, t.key("a"), 1)
		t.upsert(s, t.key("b"), 2)
		a, b := t.get(t.key("a")), t.get(t.key("b"))
		t.advance(time.Minute)
		touch := t.hold(spy, callTouch)
		t.reads("a read with its touch in the background", s, t.key("a"), 1)
		touch.arrives()
		t.reads("a read with its touch in the queue", s, t.key("b"), 2)
		ctx, cancel := t.ended()
		defer cancel()
		var drain *slidingttl.DrainError
		if err := s.Close(ctx); !errors.As(err, &drain) || drain.Abandoned != 2 || !errors.Is(err, context.Canceled) {
			t.Errorf("Close with a context that has ended: %v; want 2 touches given up", err)
		}
		t.stored("a record whose touch was given up", t.key("a"), a)
		t.stored("a record whose touch was given up", t.key("b"), b)
	},
}, {
	name:        "store/two-clocks",
	explanation: "Two processes whose clocks differ by seconds must agree about a record except for those seconds: created_at stays, the expiry only moves forward, and neither revives what the other deleted.",
	run: func(t *trial) {
		const apart = 5 * time.Second
		ahead := t.open(t.d, exact, slidingttl.Options[Value]{Now: func() time.Time { return t.clock.Now().Add(apart) }})
		behind, key := t.store(exact), t.key("a")
		t.upsert(ahead, key, 1)
		c := t.now().Add(apart)
		t.reads("a read by the clock behind, before created_at", behind, key, 1)
		t.has("after it", key, c, c.Add(exact.IdleGrace))
		for range 5 {
			t.advance(10 * time.Minute)
			t.reads("a read by the clock ahead", ahead, key, 1)
			t.reads("a read by the clock behind", behind, key, 1)
			t.has("after both", key, c, exact.Deadline(c, t.now().Add(apart)))
			t.upsert(behind, key, 1)
			t.has("after Upsert by the clock behind", key, c, exact.Deadline(c, t.now().Add(apart)))
		}
		end := t.get(key).ExpiresAt
		t.clock.set(end.Add(-apart).Time())
		t.dead("at the end by the clock ahead", ahead, key)
		if _, err := behind.Peek(t.ctx, key); err != nil {
			t.Errorf("seconds before the end by the clock behind: Peek: %v", err)
		}
		t.upsert(ahead, key, 2)
		t.has("after a new life has begun by the clock ahead", key, end, end.Add(exact.IdleGrace))
		t.reads("a read of the new life by the clock behind", behind, key, 2)
		t.ok("Delete by the clock behind", behind.Delete(t.ctx, key))
		t.dead("after Delete by the clock behind", ahead, key)
	},
}}

// ticking is a clock that moves by a step whenever it is read.
type ticking struct {
	clock
	step time.Duration
}

func (c *ticking) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(c.step)
	return c.t
}

var storeRaceCases = []testCase{{
	name:        "store/update-race",
	explanation: "Updates that race each other and touches must all be in the record at the end: a lost update is lost data, and a lost touch an early death.",
	run: func(t *trial) {
		const writers, each = 4, 6
		key := t.key("a")
		p := slidingttl.Policy{IdleGrace: 40 * day, MaxLifetime: 90 * day}
		s := t.open(t.d, p, slidingttl.Options[Value]{MaxSkew: time.Hour})
		t.upsert(s, key, 0)
		e := t.get(key)
		// Every read by this store has a later time, so a touch is due.
		sliding := &ticking{step: time.Second}
		sliding.set(t.clock.Now())
		toucher := t.open(t.d, p, slidingttl.Options[Value]{Now: sliding.Now, Strict: true})
		var last driver.Instant
		t.together(writers+1, func(i int) {
			if i == writers {
				for range writers * each {
					before := driver.Floor(sliding.clock.Now())
					switch _, err := toucher.Get(t.ctx, key); {
					case err == nil:
						last = before
					case !errors.Is(err, slidingttl.ErrConflict):
						t.Errorf("a read that races updates: %v", err)
					}
				}
				return
			}
			for range each {
				_, err := s.Update(t.ctx, key, func(v Value) (Value, error) {
					v.Count++
					return v, nil
				})
				if err != nil {
					t.Errorf("Update that races others: %v", err)
				}
			}
		})
		got := t.get(key)
		if counted := got.Value.Count - e.Value.Count; counted != writers*each {
			t.Errorf("%d updates counted up to %d", writers*each, counted)
		}
		if got.CreatedAt != e.CreatedAt {
			t.Errorf("created_at moved: stored was %s and is %s", describe(e.Life), describe(got.Life))
		}
		if promised := last.Add(40 * day); got.ExpiresAt < promised {
			t.Errorf("the last read promised until %v; stored is %s", promised.Time(), describe(got.Life))
		}
	},
}, {
	name:        "store/insert-race",
	explanation: "Of concurrent Inserts of one key, whether it is absent or past its cap, exactly one succeeds, and the others find that it exists.",
	run: func(t *trial) {
		s := t.store(exact)
		t.insert(t.key("past its cap"), 99, t.life(10*day))
		t.advance(exact.MaxLifetime)
		for _, name := range []string{"absent", "past its cap"} {
			key := t.key(name)
			errs := make([]error, racers)
			t.together(racers, func(i int) { errs[i] = s.Insert(t.ctx, key, value(i)) })
			won := -1
			for i, err := range errs {
				switch {
				case err == nil && won >= 0:
					t.Errorf("two of %d concurrent Inserts of a key that is %s succeeded", racers, name)
				case err == nil:
					won = i
				case !errors.Is(err, slidingttl.ErrExists):
					t.Errorf("the loser of concurrent Inserts of a key that is %s: the error is %v; want %v", name, err, slidingttl.ErrExists)
				}
			}
			if won < 0 {
				t.Fatalf("none of %d concurrent Inserts of a key that is %s succeeded", racers, name)
			}
			t.reads("after concurrent Inserts", s, key, won)
		}
	},
}, {
	name:        "store/delete-race",
	explanation: "Promise 5: reads, touches and updates that race a Delete must not bring the record back.",
	run: func(t *trial) {
		s := t.store(exact)
		for round := range rounds {
			key := t.key(string(rune('a' + round)))
			t.upsert(s, key, 1)
			t.advance(time.Minute)
			t.together(4, func(i int) {
				var err error
				switch i {
				case 0:
					err = s.Delete(t.ctx, key)
				case 1:
					_, err = s.Get(t.ctx, key)
				case 2:
					_, err = s.Touch(t.ctx, key)
				case 3:
					_, err = s.Update(t.ctx, key, func(Value) (Value, error) { return value(2), nil })
				}
				if err != nil && (i == 0 || !errors.Is(err, slidingttl.ErrNotFound)) {
					t.Errorf("a call that races a Delete: %v", err)
				}
			})
			t.absent("after a Delete that raced others", key)
		}
	},
}}
