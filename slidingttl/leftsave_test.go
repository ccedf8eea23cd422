package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// slow is a repository whose Insert is answered so much later.
type slow struct {
	leaves
	by time.Duration
}

func (r slow) Insert(ctx context.Context, id string, v int) error {
	_ = r.leaves.Insert(ctx, id, v)
	return sleep(ctx, r.by)
}

// The caller's own deletion, then those of many other keys, then its new record.
func TestLeftSaveAndManyDeletions(t *testing.T) {
	for _, others := range []int{0, 10000} {
		t.Run(fmt.Sprint(others, " other keys deleted"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var pool atomic.Bool
				free := make(chan struct{})
				d.before = func(call context.Context, op, key string) error {
					if op == "get" && key == "k" && pool.Swap(false) { // waits for a connection
						select {
						case <-free:
						case <-call.Done():
							return call.Err()
						}
					}
					return nil
				}
				d.trip = time.Millisecond
				s := open(t, d, session, nil)
				wrap := func(caller func()) *slidingttl.Wrapped[string, int, int] {
					w, err := slidingttl.Wrap[string, int](slow{leaves{under, caller}, 5 * time.Millisecond}, s, func(id string) string { return id }, nil)
					must(t, err)
					return w
				}
				w := wrap(nil)
				must(t, w.Insert(t.Context(), "k", 1))
				time.Sleep(session.IdleGrace / 2)
				wantErr(t, wrap(func() { pool.Store(true); cancel() }).Upsert(ctx, "k", 2), context.Canceled)
				time.Sleep(10 * time.Millisecond) // what it left has sent its read
				must(t, w.Delete(t.Context(), "k"))
				var group sync.WaitGroup
				for i := range others {
					group.Go(func() { must(t, w.Delete(t.Context(), fmt.Sprint("other", i))) })
				}
				group.Wait()
				began := instant(time.Now())
				go func() {
					time.Sleep(time.Millisecond)
					close(free)
				}()
				must(t, w.Insert(t.Context(), "k", 3))
				time.Sleep(time.Minute)
				if e := stored(t, under, "k"); e.Value != 3 || e.CreatedAt < began {
					t.Errorf("the new record, %d, has the created_at of the deleted one, %v before it was made", e.Value, began.Sub(e.CreatedAt))
				}
			})
		})
	}
}

// A deletion that ended while the save waited for its read, and a new record made after the save has returned.
func TestLeftSaveAfterADeletion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		type mark struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), mark{}, true))
		defer cancel()
		s := open(t, d, session, nil)
		w, err := slidingttl.Wrap[string, int](slow{leaves{under, nil}, 2 * time.Millisecond}, s, func(id string) string { return id }, nil)
		must(t, err)
		must(t, w.Insert(t.Context(), "k", 1))
		time.Sleep(session.IdleGrace / 2)
		var written atomic.Bool
		d.before = func(call context.Context, op, key string) error {
			switch {
			case op != "get" || !written.Load():
			case call.Value(mark{}) == nil: // the new record's
				return sleep(call, 5*time.Millisecond)
			case ctx.Err() == nil:
				return hangs(call)
			default:
				return sleep(call, time.Millisecond)
			}
			return nil
		}
		saver := wrapLeaves(t, s, leaves{under, func() { written.Store(true) }}, nil)
		saved := make(chan error, 1)
		go func() { saved <- saver.Upsert(ctx, "k", 2) }()
		synctest.Wait()
		time.Sleep(time.Second)
		must(t, w.Delete(t.Context(), "k")) // its row is written, its touch reads
		time.Sleep(time.Second)
		cancel()
		wantErr(t, <-saved, context.Canceled)
		began := instant(time.Now())
		must(t, w.Insert(t.Context(), "k", 3))
		time.Sleep(time.Minute)
		if e := stored(t, under, "k"); e.Value != 3 || e.CreatedAt < began {
			t.Errorf("the new record, %d, has the created_at of the deleted one, %v before it was made", e.Value, began.Sub(e.CreatedAt))
		}
	})
}

// A Flush waits for a save that goes on without its caller.
func TestFlushWaitsForLeftSaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := wrapLeaves(t, s, leaves{under, cancel}, nil)
		must(t, w.Insert(t.Context(), "k", 1))
		born := stored(t, under, "k").CreatedAt
		time.Sleep(session.IdleGrace / 2)
		d.trip = 100 * time.Millisecond
		wantErr(t, w.Upsert(ctx, "k", 2), context.Canceled)
		must(t, s.Flush(t.Context()))
		if e := stored(t, under, "k"); e.CreatedAt != born {
			t.Errorf("after Flush the record has the life %+v, and its touch is under way", e.Life)
		}
	})
}

// A policy function that ends the goroutine of what goes on.
func TestLeftSaveExits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var exit atomic.Bool
		s := open(t, d, session, &slidingttl.Options[int]{PolicyOf: func(int) slidingttl.Policy {
			if exit.Load() {
				runtime.Goexit()
			}
			return session
		}})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := wrapLeaves(t, s, leaves{under, func() { cancel(); exit.Store(true) }}, nil)
		must(t, w.Insert(t.Context(), "k", 1))
		d.trip = time.Millisecond
		time.Sleep(session.IdleGrace / 2)
		fails := s.Stats().TouchFails
		wantErr(t, w.Upsert(ctx, "k", 2), context.Canceled)
		time.Sleep(time.Minute)
		exit.Store(false)
		if n := s.Stats().TouchFails - fails; n != 1 || stored(t, under, "k").CreatedAt != 0 {
			t.Errorf("%d touches counted as failed, life %+v", n, stored(t, under, "k").Life)
		}
	})
}

// The cap of what was overwritten passes before its expiry is written, and then the caller leaves.
func TestLeftSavePastTheCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := open(t, d, session, nil)
		w := wrapLeaves(t, s, leaves{under, func() { time.Sleep(2 * time.Second) }}, nil)
		now := instant(time.Now())
		c := now.Add(time.Second - session.MaxLifetime)
		under.Plant("k", 1, driver.Life{CreatedAt: c, ExpiresAt: now.Add(time.Second)})
		gets := 0
		d.before = func(call context.Context, op, _ string) error {
			if op == "get" {
				if gets++; gets == 3 { // after the peek, and the read that found the cap passed
					return hangs(call)
				}
			}
			return nil
		}
		saved := make(chan error, 1)
		go func() { saved <- w.Upsert(ctx, "k", 2) }()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		cancel()
		wantErr(t, <-saved, context.Canceled)
		time.Sleep(time.Minute)
		if e, n := stored(t, under, "k"), s.Stats().TouchFails; e.CreatedAt == 0 && n == 0 {
			t.Errorf("the expiry of %d was never written, after %d reads, and %d touches count as failed", e.Value, gets, n)
		}
	})
}

// Close says that a save was left undone where both have one context, as in a shutdown: the call that has not returned, or
// the touch that goes on.
func TestCloseCountsLeftSaves(t *testing.T) {
	counts := make(map[int]int)
	for range 1000 {
		synctest.Test(t, func(t *testing.T) {
			d, under := newRemote[int](time.Millisecond)
			d.before = func(ctx context.Context, op, _ string) error { return hangs(ctx) }
			s, err := slidingttl.New(d, session, nil)
			must(t, err)
			w := wrapLeaves(t, s, leaves{hoard: under}, &slidingttl.WrapOptions[int]{CreatedAt: func(int) time.Time { return time.Now() }})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var group sync.WaitGroup
			group.Go(func() { wantErr(t, w.Upsert(ctx, "k", 1), context.DeadlineExceeded) })
			synctest.Wait()
			err = s.Close(ctx)
			drain := new(slidingttl.DrainError)
			if !errors.As(err, &drain) {
				drain = new(slidingttl.DrainError)
			}
			group.Wait()
			synctest.Wait()
			if s.Stats().TouchFails != 1 {
				t.Errorf("%+v", s.Stats())
			}
			counts[drain.Calls+100*drain.Abandoned]++
		})
	}
	if counts[0] != 0 {
		t.Errorf("what was left undone, calls and 100 for each touch, so often: %v", counts)
	}
}

// What the new record's value tells becomes its created_at, whatever an earlier save of a deleted one has left.
func TestLeftSaveBeforeOneThatTells(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var late atomic.Bool
		d.before = func(call context.Context, op, key string) error {
			if op == "get" && late.Swap(false) { // of what goes on
				return sleep(call, 5*time.Millisecond)
			}
			return nil
		}
		told := time.Now().Add(-10 * time.Minute)
		opts := &slidingttl.WrapOptions[int]{CreatedAt: func(v int) time.Time {
			if v == 3 {
				return told
			}
			return time.Now().Add(-session.IdleGrace)
		}}
		s := open(t, d, session, nil)
		w, err := slidingttl.Wrap[string, int](slow{leaves{under, func() { cancel(); late.Store(true) }}, 20 * time.Millisecond}, s, func(id string) string { return id }, opts)
		must(t, err)
		wantErr(t, w.Upsert(ctx, "k", 2), context.Canceled)
		must(t, w.Delete(t.Context(), "k"))
		must(t, w.Insert(t.Context(), "k", 3))
		time.Sleep(time.Minute)
		if e := stored(t, under, "k"); e.Value != 3 || e.CreatedAt != instant(told) {
			t.Errorf("the new record, %d, has a created_at %v later than its value told", e.Value, e.CreatedAt.Sub(instant(told)))
		}
	})
}

// A caller whose Upsert ran out of time calls it again.
func TestLeftSaveTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		s := open(t, d, session, nil)
		var late atomic.Bool
		w := wrapLeaves(t, s, leaves{under, nil}, nil)
		must(t, w.Insert(t.Context(), "k", 1))
		born := stored(t, under, "k").CreatedAt
		time.Sleep(session.IdleGrace / 2)
		d.before = func(call context.Context, op, _ string) error {
			if op == "get" && late.Load() {
				return sleep(call, 100*time.Millisecond)
			}
			return nil
		}
		first := wrapLeaves(t, s, leaves{under, func() { late.Store(true) }}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		wantErr(t, first.Upsert(ctx, "k", 2), context.DeadlineExceeded)
		time.Sleep(10 * time.Millisecond) // what goes on has sent its read
		late.Store(false)
		must(t, w.Upsert(t.Context(), "k", 2))
		time.Sleep(time.Minute)
		if e := stored(t, under, "k"); e.CreatedAt != born {
			t.Errorf("created_at is %v later than it was", e.CreatedAt.Sub(born))
		}
		if n := s.Stats().TouchFails; n != 0 {
			t.Errorf("%d touches failed", n)
		}
	})
}
