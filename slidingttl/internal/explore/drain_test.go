package explore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// drains is how often the gate closes a store with a full queue, and drainsWithin how much longer than
// its context, and what a bare timer beside it was late by, a Close may take on a busy machine. At
// night it is 1,000 times and 100 ms.
var drains, drainsWithin = 20, 5 * time.Second

// TestCloseOfAFullQueue closes stores in which 65,536 touches wait, a tenth of which fail, on real
// time.
func TestCloseOfAFullQueue(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()))
	const waiting, closes = 1 << 16, 200 * time.Millisecond
	worst := time.Duration(0)
	for i := range drains {
		m := &slow{takes: time.Duration(i%21) * time.Millisecond, open: make(chan struct{})}
		var givenUp atomic.Int64
		s, err := slidingttl.New[int](m, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, &slidingttl.Options[int]{
			Touches: slidingttl.Background,
			OnTouchError: func(_ context.Context, _ string, err error) {
				if errors.Is(err, slidingttl.ErrClosed) {
					givenUp.Add(1)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for k := range waiting {
			if _, err := s.Get(t.Context(), fmt.Sprint(k)); err != nil {
				t.Fatal(err)
			}
		}
		timer := make(chan time.Duration, 1)
		ctx, cancel := context.WithTimeout(t.Context(), closes)
		began := time.Now()
		close(m.open)
		time.AfterFunc(closes, func() { timer <- time.Since(began) - closes })
		closed := make(chan error, 1)
		go func() { closed <- s.Close(ctx) }()
		select {
		case err = <-closed:
		case <-time.After(time.Minute):
			t.Fatalf("run %d: Close does not return within a minute", i)
		}
		took := time.Since(began)
		late := time.Duration(0)
		if took > closes {
			late = <-timer
		}
		cancel()
		over := took - closes - late
		worst = max(worst, over)
		if over > drainsWithin {
			t.Errorf("run %d, touches of %v: Close takes %v, of which a timer was late by %v", i, m.takes, took, late)
		}
		said := 0
		if drain, ok := errors.AsType[*slidingttl.DrainError](err); ok {
			said = drain.Abandoned
		}
		st := s.Stats()
		for wait := 0; wait < 1000 && (said != int(givenUp.Load()) || st.Due+st.Retried != ends(st)); wait++ {
			time.Sleep(10 * time.Millisecond) // hooks may take longer than Close
			st = s.Stats()
		}
		if st.Pending != 0 || st.Due+st.Retried != ends(st) || said != int(givenUp.Load()) {
			t.Errorf("run %d: %v, %d were given up, and then %+v", i, err, givenUp.Load(), st)
		}
	}
	t.Logf("%d times; at worst %v after the context and the timer", drains, worst)
}

// slow is a store whose every read finds a touch due, and each tenth touch fails.
type slow struct {
	driver.Driver[int]
	takes time.Duration
	open  chan struct{} // touches wait until it is closed
}

func (s *slow) Resolution() time.Duration { return time.Millisecond }

func (s *slow) Get(context.Context, string) (driver.Entry[int], error) {
	now := driver.Floor(time.Now())
	return driver.Entry[int]{Meta: driver.Meta{Life: driver.Life{CreatedAt: now.Add(-time.Minute), ExpiresAt: now.Add(time.Minute)}, Version: 1}}, nil
}

func (s *slow) Touch(ctx context.Context, k string, _ driver.Meta, _ driver.Life, _ driver.Instant) (driver.Version, error) {
	select {
	case <-s.open:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := driver.Sleep(ctx, s.takes); err != nil {
		return 0, err
	}
	if k[len(k)-1] == '7' {
		return 0, errDown
	}
	return 1, nil
}
