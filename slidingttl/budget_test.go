package slidingttl_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A touch in the background spends once, not again when its turn comes.
func TestBackgroundTouchSpendsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Budget: 10})
		for i := range 8 * 60 {
			plant(under, fmt.Sprint(i), 20*time.Minute)
			read(t, s, fmt.Sprint(i))
			synctest.Wait()
			if n := s.Stats().Pending; n > 0 {
				t.Fatalf("touch %d waits, at 8 a second of 10", i)
			}
			time.Sleep(time.Second / 8)
		}
	})
}

// A touch whose record dies soon does not wait for one that was queued earlier, even if it fails at first.
func TestNearerDeathGoesAhead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 0.1, TouchTimeout: time.Second})
		for i := range 20 { // the first spends what there is
			plant(under, fmt.Sprint(i), 20*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		time.Sleep(time.Second)
		failed := false
		d.before = func(_ context.Context, op, key string) error {
			if op == "touch" && key == "near" && !failed {
				failed = true
				return errDown
			}
			return nil
		}
		plant(under, "near", 3*time.Second)
		read(t, s, "near")
		time.Sleep(2700 * time.Millisecond)
		if e := stored(t, under, "near"); e.ExpiresAt.Sub(instant(time.Now())) < time.Minute {
			t.Errorf("near has %v left", e.ExpiresAt.Sub(instant(time.Now())))
		}
		if st := s.Stats(); st.Pending != 19 {
			t.Errorf("%d wait, want those that have the time", st.Pending)
		}
	})
}

// Touch does not wait for the budget, but counts against it.
func TestTouchSpendsFromTheBudget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 1})
		for i := range 3 {
			plant(under, fmt.Sprint(i), 20*time.Minute)
			_, err := s.Touch(t.Context(), fmt.Sprint(i))
			must(t, err)
		}
		plant(under, "k", 20*time.Minute)
		read(t, s, "k")
		if st := s.Stats(); st.Touched != 3 || st.Pending != 1 {
			t.Errorf("%d touched and %d wait, want 3 and 1", st.Touched, st.Pending)
		}
		time.Sleep(1500 * time.Millisecond) // what was not there is owed, for a second
		if st := s.Stats(); st.Pending != 1 {
			t.Error("Touch took nothing of a budget that was spent")
		}
		time.Sleep(time.Second)
		if st := s.Stats(); st.Pending != 0 {
			t.Error("Touch holds back others for more than two seconds")
		}
	})
}

// Slack grows towards MaxSlack while touches wait, and shrinks again when none do.
func TestSlackGrowsWithTheBacklog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		policy := slidingttl.Policy{IdleGrace: 10 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: time.Minute, MaxSlack: 10 * time.Minute}
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, policy, &slidingttl.Options[int]{Budget: 2})
		slack := func(key string) time.Duration {
			d.mu.Lock()
			defer d.mu.Unlock()
			for _, l := range d.lives {
				if l.op == "touch" && l.key == key {
					return l.now.ExpiresAt.Sub(instant(l.at)) - policy.IdleGrace
				}
			}
			t.Fatalf("no touch of %s", key)
			return 0
		}
		plant(under, "before", 5*time.Minute)
		read(t, s, "before")
		if got := slack("before"); got != policy.Slack {
			t.Errorf("slack %v with nothing that waits, want %v", got, policy.Slack)
		}
		// Worth 150 s of budget, which is a quarter of the idle grace.
		for i := range 300 {
			plant(under, fmt.Sprint(i), 9*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		time.Sleep(30 * time.Second)
		plant(under, "during", time.Minute)
		_, err := s.Touch(t.Context(), "during")
		must(t, err)
		if got := slack("during"); got < 6*time.Minute || got > policy.MaxSlack {
			t.Errorf("slack %v with a backlog, want nearly %v", got, policy.MaxSlack)
		}
		time.Sleep(5 * time.Minute)
		if st := s.Stats(); st.Pending != 0 {
			t.Fatalf("%d still wait", st.Pending)
		}
		plant(under, "after", time.Minute)
		read(t, s, "after")
		if got := slack("after"); got > policy.Slack+time.Second {
			t.Errorf("slack %v after the backlog, want %v again", got, policy.Slack)
		}
	})
}

// A touch that waited reads first: another process may have touched the record.
func TestWaitingTouchLooksFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 1})
		for i := range 5 {
			plant(under, fmt.Sprint(i), 20*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		at := instant(time.Now()).Add(session.IdleGrace)
		for i := range 5 {
			e := stored(t, under, fmt.Sprint(i))
			if e.ExpiresAt < at {
				_, err := under.Touch(context.Background(), fmt.Sprint(i), e.Meta, driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: at}, driver.Floor(time.Now()))
				must(t, err)
			}
		}
		d.counts()
		time.Sleep(10 * time.Second)
		if n := d.count("touch"); n > 1 { // the next may have gone before a second was over
			t.Errorf("%d touches of records that another has touched", n)
		}
		accounted(t, s.Stats())
	})
}

// A touch that is early by its share of the slack, and whose record is then saved under a policy
// without slack, does not shorten the life that the save gave.
func TestWaitingTouchTakesNothingOffASave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const keys = 32
		loose := slidingttl.Policy{IdleGrace: 2 * time.Minute, MaxLifetime: time.Hour, Slack: 2 * time.Minute}
		policyOf := func(v int) slidingttl.Policy {
			if v == 1 {
				return withSlack(loose, 0)
			}
			return loose
		}
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, loose, &slidingttl.Options[int]{PolicyOf: policyOf, Budget: 0.1})
		for i := range keys {
			must(t, s.Insert(t.Context(), fmt.Sprint(i), 0))
		}
		time.Sleep(loose.Slack - time.Second)
		for i := range keys {
			_, err := s.Get(t.Context(), fmt.Sprint(i))
			must(t, err)
		}
		time.Sleep(2 * time.Second)
		saved := instant(time.Now().Add(loose.IdleGrace))
		queued := s.Stats().Pending
		for i := range keys {
			must(t, s.Upsert(t.Context(), fmt.Sprint(i), 1))
		}
		time.Sleep(loose.IdleGrace - time.Second)
		for i := range keys {
			if e := stored(t, under, fmt.Sprint(i)); e.ExpiresAt < saved {
				t.Errorf("%v were taken off what a save gave", saved.Sub(e.ExpiresAt))
			}
		}
		if queued == 0 {
			t.Error("no touch waited")
		}
	})
}

// loseShard makes touches of keys that begin with "lost" fail, and after a second all else.
func loseShard(d *remote[int]) {
	began := time.Now()
	d.before = func(_ context.Context, op, key string) error {
		if strings.HasPrefix(key, "lost") && (op == "touch" || time.Since(began) > time.Second) {
			return errDown
		}
		return nil
	}
}

// A touch that begins above the budget is counted, also one that waited for nothing.
func TestOverdrawnBudgetIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 10})
		for i := range 200 * 20 {
			plant(under, fmt.Sprint(i), 3*time.Second)
			read(t, s, fmt.Sprint(i))
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		if n := s.Stats().OverBudget; n < 18 {
			t.Errorf("%d seconds over the budget, of 20", n)
		}
	})
}

// Touches of records that have died do not fill the queue for those of others.
func TestDeadRecordsLeaveTheQueue(t *testing.T) {
	for _, budget := range []float64{0, 10} {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[int](time.Millisecond)
			loseShard(d)
			s, err := slidingttl.New(d, session, &slidingttl.Options[int]{Queue: 100, Budget: budget})
			must(t, err)
			for i := range 100 {
				left := time.Minute
				if i < 20 {
					left = 20 * time.Minute // these fail and rest all the time
				}
				plant(under, fmt.Sprint("lost ", i), left)
				go func() { _ = s.Keep(t.Context(), fmt.Sprint("lost ", i)) }()
			}
			time.Sleep(3 * time.Minute)
			if n := s.Stats().Pending; n > 50 {
				t.Errorf("budget %v: %d touches are pending, of 20 records that live", budget, n)
			}
			_ = s.Close(t.Context()) // it gives up those of the living
		})
	}
}

// Touches of what has died meanwhile wait behind those of what can still die.
func TestDeadLetTheLivingGo(t *testing.T) {
	for _, dead := range []int{100, 1000} {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[int](time.Millisecond)
			var reads, touches atomic.Bool // whether they fail
			touches.Store(true)
			d.before = func(_ context.Context, op, _ string) error {
				if op == "touch" && touches.Load() || reads.Load() {
					return errDown
				}
				return nil
			}
			s := open(t, d, session, &slidingttl.Options[int]{Budget: 10})
			for i := range 100 { // opens the breaker
				key := fmt.Sprint("broken ", i)
				plant(under, key, time.Hour)
				read(t, s, key)
			}
			const living = 50
			for i := range dead + living {
				left := 30 * time.Second
				if i < living {
					left = 75 * time.Second
				}
				plant(under, fmt.Sprint(i), left)
			}
			for i := range dead + living {
				read(t, s, fmt.Sprint(i))
			}
			reads.Store(true)
			time.Sleep(time.Minute)
			reads.Store(false)
			touches.Store(false)
			time.Sleep(time.Minute)
			lost := 0
			for i := range living {
				if _, err := s.Peek(t.Context(), fmt.Sprint(i)); err != nil {
					lost++
				}
			}
			if lost > 0 {
				t.Errorf("beside %d touches of the dead, %d of %d records with 15 s left died", dead, lost, living)
			}
		})
	}
}

// A touch that others were let go before has its turn again once its record is read alive.
func TestPassedTouchComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		fail := failTouches(d, func(key string) bool { return key == "k" })
		fail(true)
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 10})
		short := session
		short.IdleGrace = time.Minute // as a process has that has an older policy still
		others := open(t, over[int](under), short, nil)
		for i := range 2000 {
			key := fmt.Sprint(i)
			plant(under, key, 25*time.Minute)
			read(t, s, key)
		}
		plant(under, "k", 10*time.Second)
		read(t, s, "k")
		time.Sleep(5 * time.Second)
		read(t, others, "k")
		time.Sleep(20 * time.Second)
		fail(false)
		read(t, s, "k")
		time.Sleep(time.Minute)
		read(t, s, "k")
	})
}

// Touches of the dead are the first that a full queue sheds.
func TestQueueFullOfTheDead(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var touches, reads atomic.Bool // whether they fail
		touches.Store(true)
		d.before = func(ctx context.Context, op, _ string) error {
			if reads.Load() {
				return hangs(ctx)
			} else if op == "touch" && touches.Load() {
				return errDown
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 10, Queue: 1000})
		for i := range 600 {
			left := time.Hour
			if i >= 100 {
				left = 30 * time.Second
			}
			plant(under, fmt.Sprint("dead ", i), left)
			read(t, s, fmt.Sprint("dead ", i))
		}
		reads.Store(true)
		time.Sleep(time.Minute)
		reads.Store(false)
		touches.Store(false)
		const living = 15 * 160
		for i := range living {
			plant(under, fmt.Sprint(i), 10*time.Minute)
			read(t, s, fmt.Sprint(i))
			time.Sleep(time.Second / 15)
		}
		time.Sleep(12 * time.Minute)
		lost := 0
		for i := range living {
			if _, err := s.Peek(t.Context(), fmt.Sprint(i)); err != nil {
				lost++
			}
		}
		if lost > 0 {
			t.Errorf("%d of %d records died", lost, living)
		}
	})
}
