package slidingttl_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// stalling is a store whose first touches get no answer for ten seconds, and how many of 300 others it
// then takes in the time after it.
func stalling(t *testing.T, o slidingttl.Options[int], hang func(ctx context.Context) error, then func(s *slidingttl.Store[int])) uint64 {
	t.Helper()
	d, under := newRemote[int](time.Millisecond)
	began := time.Now()
	d.before = func(ctx context.Context, op, _ string) error {
		if op == "touch" && time.Since(began) < 10*time.Second {
			return hang(ctx)
		}
		return nil
	}
	s, err := slidingttl.New(d, session, &o)
	must(t, err)
	for i := range 300 {
		plant(under, fmt.Sprint(i), 20*time.Minute)
		read(t, s, fmt.Sprint(i))
	}
	time.Sleep(10*time.Second - time.Since(began))
	then(s)
	n := s.Stats().Touched
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_ = s.Close(ctx)
	return n
}

// Touches that get no answer, and have an hour, hold back no others for so long once the store works again,
// though they keep all the workers.
func TestTriesWithoutAWorker(t *testing.T) {
	for _, workers := range []int{1, 4, 16} {
		bubble(t, func(t *testing.T) {
			o := slidingttl.Options[int]{TouchTimeout: time.Hour, Workers: workers}
			if n := stalling(t, o, hangs, func(*slidingttl.Store[int]) { time.Sleep(2 * time.Minute) }); n < 250 {
				t.Errorf("%d workers: %d of 300 touches are made in the two minutes after the store works again", workers, n)
			}
		})
	}
}

// Tries are for what hangs: workers that make touches, slowly, get none beside them.
func TestSlowWorkersGetNoTries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var running, most atomic.Int32
		d.before = func(ctx context.Context, op, _ string) error {
			if op != "touch" {
				return nil
			}
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			return sleep(ctx, 300*time.Millisecond)
		}
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 2})
		for i := range 100 {
			plant(under, fmt.Sprint(i), 10*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		if st := s.Stats(); most.Load() != 2 || st.Touched != 100 {
			t.Errorf("%d ran at once by 2 workers: %+v", most.Load(), st)
		}
	})
}

// Flush, called again and again, does not keep a failing store from being tried.
func TestFlushesLetTriesBegin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		began := time.Now()
		d.before = func(ctx context.Context, op, key string) error {
			switch {
			case op != "touch" || time.Since(began) > 2*time.Second:
				return nil
			case key == "hangs":
				return hangs(ctx)
			}
			return errDown
		}
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{TouchTimeout: time.Hour})
		must(t, err)
		plant(under, "hangs", 20*time.Minute)
		read(t, s, "hangs")
		breakOpen(t, s, under)
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			_ = s.Flush(ctx)
			cancel()
		}
		if st := s.Stats(); st.Touched != 5 || st.BreakerOpen {
			t.Errorf("%d of 5 touches are made: %+v", st.Touched, st)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
}

// A driver whose calls do not end with their context keeps few of them, however long the store hangs.
func TestDriverThatIgnoresItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		release := make(chan struct{})
		var running atomic.Int32
		d.before = func(_ context.Context, op, _ string) error {
			if op == "touch" {
				running.Add(1)
				<-release
			}
			return nil
		}
		s, err := slidingttl.New(d, session, nil)
		must(t, err)
		for i := range 1000 {
			plant(under, fmt.Sprint(i), 20*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		time.Sleep(10 * time.Minute)
		if n := running.Load(); n > 100 {
			t.Errorf("%d touches run at once after ten minutes", n)
		}
		close(release)
		must(t, s.Close(t.Context()))
	})
}
