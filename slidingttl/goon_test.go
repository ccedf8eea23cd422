package slidingttl_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// caller marks the contexts of one who leaves.
type caller struct{}

type rowsOfOne struct {
	hoard *hoard[int]
	leave context.CancelFunc
}

func (r *rowsOfOne) Get(ctx context.Context, id string) (int, error) {
	e, err := r.hoard.Get(ctx, id)
	return e.Value, err
}
func (r *rowsOfOne) Upsert(_ context.Context, id string, v int) error {
	r.hoard.Plant(id, v, driver.Life{})
	r.leave()
	return nil
}
func (r *rowsOfOne) Insert(_ context.Context, id string, v int) error {
	r.hoard.Plant(id, v, driver.Life{})
	return nil
}
func (r *rowsOfOne) Delete(ctx context.Context, id string) error { return r.hoard.Delete(ctx, id) }

func TestSaveThatItsCallerLeft(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		var counts atomic.Bool
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "get" && counts.Load() && ctx.Value(caller{}) == nil { // the Insert's
				return sleep(ctx, 5*time.Millisecond)
			}
			return nil
		}
		s := open(t, d, session, nil)
		rows := &rowsOfOne{hoard: under}
		w, err := slidingttl.Wrap[string, int](rows, s, func(id string) string { return id }, nil)
		must(t, err)
		must(t, w.Insert(t.Context(), "k", 1))
		born := stored(t, under, "k").CreatedAt
		time.Sleep(session.IdleGrace / 2)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), caller{}, true))
		defer cancel()
		rows.leave = func() { cancel(); counts.Store(true) }
		wantErr(t, w.Upsert(ctx, "k", 2), context.Canceled)
		must(t, w.Delete(t.Context(), "k"))
		must(t, w.Insert(t.Context(), "k", 3))
		time.Sleep(time.Minute)
		e := stored(t, under, "k")
		if e.Value != 3 || e.CreatedAt == born {
			t.Errorf("the new record, %d, has the created_at of the deleted one, %v ago", e.Value, time.Since(e.CreatedAt.Time()))
		}
	})
}

// A store that hangs has a bounded number of calls under way for callers who have left.
func TestSavesLeaveABound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var now, most atomic.Int64
		d.before = func(ctx context.Context, op, _ string) error {
			n := now.Add(1)
			defer now.Add(-1)
			for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
			}
			return hangs(ctx)
		}
		s := open(t, d, session, nil)
		w, err := slidingttl.Wrap[string, int](leaves{hoard: under}, s, func(id string) string { return id },
			&slidingttl.WrapOptions[int]{CreatedAt: func(int) time.Time { return time.Now() }})
		must(t, err)
		for i := range 2000 { // one after the other, of one caller
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			wantErr(t, w.Upsert(ctx, fmt.Sprint(i), 1), context.DeadlineExceeded)
			cancel()
		}
		if n := most.Load(); n > 256 {
			t.Errorf("one caller at a time has %d calls under way", n)
		}
		time.Sleep(time.Minute)
	})
}
