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
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
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
		takes, open := time.Duration(i%21)*time.Millisecond, make(chan struct{})
		var givenUp atomic.Int64
		s, err := slidingttl.New[int](slow(takes, open), slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, &slidingttl.Options[int]{
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
		close(open)
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
			t.Errorf("run %d, touches of %v: Close takes %v, of which a timer was late by %v", i, takes, took, late)
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

// slow returns a store whose every read finds a touch due. Touches wait until open is closed, and each
// tenth fails.
func slow(takes time.Duration, open chan struct{}) *fakestore.Driver[int] {
	return &fakestore.Driver[int]{Step: time.Millisecond, Handle: func(c *fakestore.Call[int]) {
		if c.Op == fakestore.Get {
			now := driver.Floor(time.Now())
			c.Entry.Meta = driver.Meta{Life: driver.Life{CreatedAt: now.Add(-time.Minute), ExpiresAt: now.Add(time.Minute)}, Version: 1}
			return
		}
		select {
		case <-open:
			c.Err = driver.Sleep(c.Ctx, takes)
		case <-c.Ctx.Done():
			c.Err = c.Ctx.Err()
		}
		if c.Err == nil && c.Key[len(c.Key)-1] == '7' {
			c.Err = errDown
		}
	}}
}
