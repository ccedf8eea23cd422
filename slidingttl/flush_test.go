package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// Flush makes the waiting touches, whatever the budget, and leaves the store open.
func TestFlush(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 0.01})
		for i := range 50 {
			plant(under, fmt.Sprint(i), 10*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		if n := s.Stats().Pending; n != 49 {
			t.Fatalf("%d wait, want 49", n)
		}
		began := time.Now()
		must(t, s.Flush(t.Context()))
		if took := time.Since(began); took > time.Second || s.Stats().Pending != 0 || s.Stats().Touched != 50 {
			t.Errorf("after %v: %+v", took, s.Stats())
		}
		plant(under, "k", 10*time.Minute)
		read(t, s, "k")
		if n := s.Stats().Pending; n != 1 {
			t.Errorf("%d wait after Flush, want the budget to hold again", n)
		}
		must(t, s.Flush(t.Context()))
		must(t, s.Flush(t.Context()))
	})
}

// Flush gives up on a store that refuses touches, and when its context ends. The remaining touches
// keep waiting.
func TestFlushGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		set := failTouches(d, all)
		set(true)
		s := open(t, d, session, nil)
		breakOpen(t, s, under)
		d.counts()
		wantErr(t, s.Flush(t.Context()), errDown)
		if n := d.count("touch"); n != 1 || s.Stats().Pending != 5 {
			t.Errorf("%d touches sent, %d wait", n, s.Stats().Pending)
		}
		set(false)
		must(t, s.Flush(t.Context()))
		if st := s.Stats(); st.Touched != 5 || st.BreakerOpen {
			t.Errorf("%+v", st)
		}
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, time.Second)
			}
			return nil
		}
		plant(under, "k", 10*time.Minute)
		read(t, s, "k")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		wantErr(t, s.Flush(ctx), context.DeadlineExceeded)
		must(t, s.Flush(t.Context()))
		if st := s.Stats(); st.Touched != 6 {
			t.Errorf("%+v", st)
		}
	})
}

// The late and failing states end by themselves if no touch waits, and otherwise with the first
// touch that lands.
func TestTroubleEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, key string) error {
			if op == "touch" && key != "quick" {
				return sleep(ctx, 300*time.Millisecond)
			}
			return nil
		}
		s := open(t, d, session, nil)
		late := func() {
			t.Helper()
			for i := range 5 {
				plant(under, fmt.Sprint(i), 10*time.Minute)
				read(t, s, fmt.Sprint(i))
			}
			time.Sleep(time.Second)
			if st := s.Stats(); !st.Late || st.BreakerOpen || st.Pending != 0 {
				t.Fatalf("after 5 late touches: %+v", st)
			}
		}
		late()
		time.Sleep(28 * time.Second)
		if !s.Stats().Late {
			t.Error("not late any more after 29 s without trouble")
		}
		time.Sleep(2 * time.Second)
		if s.Stats().Late {
			t.Error("late after 30 s without trouble")
		}
		late()
		for i := range 5 {
			if !s.Stats().Late {
				t.Errorf("not late any more after %d touches in time", i)
			}
			plant(under, "quick", 10*time.Minute)
			read(t, s, "quick")
			time.Sleep(time.Millisecond)
		}
		if s.Stats().Late {
			t.Error("late after 5 touches in time")
		}
	})
}

// Stats count the time in which only workers were missing, and delayed lowerings of expiries.
func TestStatsOfScarcity(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, 10*time.Millisecond)
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 2})
		for i := range 6 {
			plant(under, fmt.Sprint(i), 10*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		time.Sleep(time.Second)
		if st := s.Stats(); st.Saturated != 20*time.Millisecond || st.Touched != 6 {
			t.Errorf("saturated for %v, want 20ms: %+v", st.Saturated, st)
		}
		plant(under, "k", 10*time.Hour)
		read(t, s, "k")
		time.Sleep(time.Second)
		plant(under, "k", 10*time.Hour)
		read(t, s, "k")
		if st := s.Stats(); st.Lowered != 1 || st.Damped == 0 {
			t.Errorf("%d lowered and %d held back", st.Lowered, st.Damped)
		}
	})
}

// A touch that the driver calls invalid has failed too, though it is not tried again.
func TestFlushOfWhatIsInvalid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(_ context.Context, op, _ string) error {
			if op == "touch" {
				time.Sleep(time.Millisecond)
				return &slidingttl.InvalidError{Field: "record", Value: "x", Rule: "must be"}
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Budget: 0.001})
		plant(under, "a", 20*time.Minute)
		read(t, s, "a")
		if err := s.Flush(t.Context()); !errors.Is(err, slidingttl.ErrInvalid) {
			t.Errorf("Flush: %v, and its touch was invalid", err)
		}
	})
}

// Flush sends a touch once: what fails rests.
func TestFlushTriesOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		sent := 0
		d.before = func(ctx context.Context, op, key string) error {
			switch {
			case op != "touch":
				return nil
			case key == "bad":
				sent++
				return errDown
			case key == "slow":
				return sleep(ctx, 4*time.Second)
			}
			return sleep(ctx, 5*time.Millisecond)
		}
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 4})
		for i := range 1000 {
			key := fmt.Sprint(i)
			plant(under, key, 20*time.Minute)
			read(t, s, key)
		}
		for _, key := range []string{"bad", "slow"} {
			plant(under, key, 25*time.Minute)
			read(t, s, key)
		}
		wantErr(t, s.Flush(t.Context()), errDown)
		if sent > 3 {
			t.Errorf("a failing touch was sent %d times", sent)
		}
		must(t, under.Delete(t.Context(), "bad"))
		d.before = nil
	})
}

// Flush says how many touches a Close beside it gave up.
func TestFlushBesideClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, 2*time.Second)
			}
			return nil
		}
		s := waiting(t, d, under, 200, slidingttl.Options[int]{})
		flushed := make(chan error)
		go func() { flushed <- s.Flush(t.Context()) }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := s.Close(ctx); err == nil {
			t.Error("Close gives up nothing")
		}
		if err := <-flushed; err == nil {
			t.Error("Flush says that all is done")
		}
	})
}

// Flush says how many touches are left.
func TestFlushCountsWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		down := true
		d.before = func(ctx context.Context, op, _ string) error {
			if op != "touch" {
				return nil
			}
			if err := sleep(ctx, time.Second); err != nil {
				return err
			}
			if down {
				return errors.New("down")
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background})
		plant(under, "k", 10*time.Minute)
		read(t, s, "k") // its touch begins
		synctest.Wait()
		read(t, s, "k") // waits for it
		err := s.Flush(t.Context())
		n := s.Stats().Pending
		if err == nil || n != 1 || !strings.Contains(err.Error(), "1 touches left") {
			t.Errorf("%v, but %d wait", err, n)
		}
		down = false
		must(t, s.Flush(t.Context()))
		if st := s.Stats(); st.Touched != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// Later touches, of records nearer to death, do not hold what Flush waits for to the budget, nor go beyond it themselves.
func TestFlushBehindLaterTouches(t *testing.T) {
	for _, before := range []string{"nothing", "a Flush that was given up", "a Flush under way", "a touch that failed", "an outage", "deaths in an outage"} {
		t.Run(before, func(t *testing.T) {
			bubble(t, func(t *testing.T) { judgeFlushBehindLater(t, before) })
		})
	}
}

func judgeFlushBehindLater(t *testing.T, before string) {
	d, under := newRemote[int](time.Millisecond)
	var others atomic.Int64
	var down atomic.Bool
	d.before = func(ctx context.Context, op, key string) error {
		if op == "touch" {
			if down.Load() {
				return errDown
			}
			if key[0] == 'l' {
				others.Add(1)
			}
			return sleep(ctx, 10*time.Millisecond)
		}
		return nil
	}
	monthly := slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour}
	s := open(t, d, monthly, &slidingttl.Options[int]{Touches: slidingttl.Background, Budget: 10, Workers: 4})
	access := func(key string, days int) {
		plant(under, key, time.Duration(days)*24*time.Hour)
		read(t, s, key)
	}
	many := func(name string) {
		for i := range 200 { // half a second of work
			access(fmt.Sprint(name, i), 25)
		}
	}
	switch before {
	case "a Flush that was given up":
		many("a")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		wantErr(t, s.Flush(ctx), context.DeadlineExceeded)
	case "a Flush under way":
		many("a")
		go func() { _ = s.Flush(context.Background()) }()
		time.Sleep(100 * time.Millisecond)
	case "a touch that failed":
		down.Store(true)
		access("failed", 26)
		time.Sleep(20 * time.Millisecond)
	case "an outage":
		down.Store(true)
		for i := range 5 {
			access(fmt.Sprint("failed", i), 26)
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(20 * time.Second)
	case "deaths in an outage":
		down.Store(true)
		for i := range 200 {
			plant(under, fmt.Sprint("dying", i), 10*time.Second)
			read(t, s, fmt.Sprint("dying", i))
		}
		for i := range 1000 { // above the budget, so that the dead go after them
			time.Sleep(50 * time.Millisecond)
			down.Store(i < 400)
			access(fmt.Sprint("beside", i), 20)
		}
	}
	down.Store(false)
	many("b")
	flushed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		flushed <- s.Flush(ctx)
	}()
	began := time.Now()
	var err error
	for i, waits := 0, true; waits; i++ { // 500 reads a second find a touch due, of records with 20 days left
		time.Sleep(2 * time.Millisecond)
		access(fmt.Sprint("later", i), 20)
		select {
		case err = <-flushed:
			waits = false
		default:
		}
	}
	took := time.Since(began)
	if broken := before == "deaths in an outage"; err != nil && !broken || took > 5*time.Second {
		t.Errorf("Flush of 200 touches of 10 ms by 4 workers took %v: %v", took, err)
	}
	if most := 10*took.Seconds() + 50; float64(others.Load()) > most {
		t.Errorf("meanwhile %d touches that Flush does not wait for were made, with a budget of 10 a second: want %v at most", others.Load(), most)
	}
}

// What a Flush that has ended had not come to keeps to the budget again.
func TestFlushThatIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var sent atomic.Int64
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				sent.Add(1)
				return sleep(ctx, 10*time.Millisecond)
			}
			return nil
		}
		monthly := slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour}
		s := open(t, d, monthly, &slidingttl.Options[int]{Touches: slidingttl.Background, Budget: 1, Workers: 4})
		for i := range 200 {
			key := fmt.Sprint(i)
			plant(under, key, 25*24*time.Hour)
			read(t, s, key)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		wantErr(t, s.Flush(ctx), context.DeadlineExceeded)
		before := sent.Load()
		time.Sleep(10 * time.Second)
		if n := sent.Load() - before; n > 10+4 { // and the workers' next
			t.Errorf("%d touches in ten seconds, with a budget of 1 a second", n)
		}
	})
}

// While Flush waits, the touches of later reads keep to the budget.
func TestFlushTakesNoBudgetForOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var sent atomic.Int64
		d.before = func(ctx context.Context, op, key string) error {
			if op == "touch" && key == "hangs" {
				return hangs(ctx)
			}
			if op == "touch" {
				sent.Add(1)
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 100, Touches: slidingttl.Background})
		must(t, s.Insert(t.Context(), "hangs", 1))
		time.Sleep(time.Minute)
		read(t, s, "hangs")
		read(t, s, "hangs") // whose touch waits for the one that runs
		go func() { _ = s.Flush(context.Background()) }()
		synctest.Wait()
		for _, key := range plantMany(under, 1000) {
			read(t, s, key)
		}
		time.Sleep(time.Second)
		if n := sent.Load(); n > 100+2 { // and what the limiter lets through at once
			t.Errorf("%d touches in a second", n)
		}
	})
}
