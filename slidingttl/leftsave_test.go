package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
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
				if gets++; gets == 2 { // after the peek
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
		if e, n := stored(t, under, "k"), s.Stats().TouchFails; e.CreatedAt < now || n != 0 {
			t.Errorf("after %d reads %d has the life %+v, and %d touches count as failed", gets, e.Value, e.Life, n)
		}
	})
}

// refuses is leaves with a Delete that a test answers.
type refuses struct {
	leaves
	del func(ctx context.Context, id string) error
}

func (r refuses) Delete(ctx context.Context, id string) error { return r.del(ctx, id) }

// A deletion that deletes nothing, or another record, leaves the record that was saved its expiry.
func TestLeftSaveAndADeletionOfNothing(t *testing.T) {
	for _, how := range []string{"refused", "given up", "rolled back", "began before the save"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) { judgeDeletionOfNothing(t, how) })
		})
	}
}

func judgeDeletionOfNothing(t *testing.T, how string) {
	d, under := newRemote[int](time.Millisecond)
	d.trip = time.Millisecond
	s := open(t, d, session, nil)
	var written atomic.Bool
	d.before = func(call context.Context, op, _ string) error {
		if op == "get" && written.Load() { // of what goes on
			return sleep(call, time.Second)
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	repo := refuses{leaves{under, func() { written.Store(true); cancel() }}, func(ctx context.Context, id string) error {
		switch how {
		case "refused":
			return errDown
		case "given up":
			return hangs(ctx)
		case "began before the save":
			must(t, under.Delete(ctx, id))
			return sleep(ctx, 100*time.Millisecond)
		}
		return nil
	}}
	w, err := slidingttl.Wrap[string, int](repo, s, func(id string) string { return id }, nil)
	must(t, err)
	must(t, wrapLeaves(t, s, leaves{hoard: under}, nil).Insert(t.Context(), "k", 1))
	time.Sleep(session.IdleGrace / 2)
	if how == "began before the save" {
		go func() { must(t, w.Delete(t.Context(), "k")) }()
		synctest.Wait()
	}
	saved := instant(time.Now())
	wantErr(t, w.Upsert(ctx, "k", 2), context.Canceled)
	time.Sleep(10 * time.Millisecond)
	switch how {
	case "refused":
		wantErr(t, w.Delete(t.Context(), "k"), errDown)
	case "given up":
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		wantErr(t, w.Delete(ctx, "k"), context.DeadlineExceeded)
	case "rolled back":
		must(t, w.Delete(driver.WithUndo(t.Context()), "k"))
	}
	time.Sleep(time.Minute)
	if e := stored(t, under, "k"); e.Value != 2 || e.CreatedAt < saved || e.ExpiresAt == 0 {
		t.Errorf("%d has the life %+v; %+v", e.Value, e.Life, s.Stats())
	}
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

// So does a save that has read the record before its life was put back, and is answered afterwards.
func TestLeftSaveTriedAgainBehindALateAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		s := open(t, d, session, nil)
		w := wrapLeaves(t, s, leaves{under, nil}, nil)
		must(t, w.Insert(t.Context(), "k", 1))
		born := stored(t, under, "k").CreatedAt
		time.Sleep(session.IdleGrace / 2)
		var slow, late atomic.Bool
		d.before = func(call context.Context, op, _ string) error {
			if op == "get" && slow.CompareAndSwap(true, false) { // what goes on reads after 10 ms
				return sleep(call, 10*time.Millisecond)
			}
			return nil
		}
		d.after = func(op, _ string) {
			if op == "get" && late.CompareAndSwap(true, false) { // the second Upsert's answer comes after 100 ms
				time.Sleep(100 * time.Millisecond)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wantErr(t, wrapLeaves(t, s, leaves{under, func() { slow.Store(true); cancel() }}, nil).Upsert(ctx, "k", 2), context.Canceled)
		time.Sleep(5 * time.Millisecond)
		late.Store(true)
		must(t, w.Upsert(t.Context(), "k", 2))
		time.Sleep(time.Minute)
		if e := stored(t, under, "k"); e.CreatedAt != born {
			t.Errorf("created_at is %v later than it was; %d touches failed", e.CreatedAt.Sub(born), s.Stats().TouchFails)
		}
	})
}

// Random saves and deletions of one caller, who leaves many of them and makes the next one after it: the record that
// stands keeps its created_at until it is deleted, and is given an expiry.
func TestLeftSavesOfOneCaller(t *testing.T) {
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) { judgeLeftSaves(t, seed) })
	}
}

func judgeLeftSaves(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	dice := func(n int64) int64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Int64N(n)
	}
	wait := func() time.Duration {
		if dice(3) == 0 {
			return time.Duration(dice(5e8))
		}
		return time.Duration(dice(5e6))
	}
	d, under := newRemote[int](time.Millisecond)
	d.before = func(ctx context.Context, _, _ string) error { return sleep(ctx, wait()) }
	d.after = func(_, _ string) { time.Sleep(wait()) }
	s, err := slidingttl.New(d, session, nil)
	must(t, err)
	w := wrapLeaves(t, s, leaves{hoard: under}, nil)
	must(t, w.Insert(t.Context(), "k", 1))
	born, since := stored(t, under, "k").CreatedAt, instant(time.Now())
	var log []string
	for n := range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), wait()+time.Millisecond)
		began := instant(time.Now())
		switch dice(12) {
		case 0: // a deletion by the caller, and the next record
			must(t, w.Delete(t.Context(), "k"))
			must(t, w.Insert(t.Context(), "k", 100+n))
			born, since = 0, began
		case 1:
			_ = s.Flush(ctx)
		default:
			err := w.Upsert(ctx, "k", 2+n)
			log = append(log, fmt.Sprintf("%v to %v: %v", began, instant(time.Now()), err))
		}
		cancel()
		if dice(2) == 0 {
			time.Sleep(wait())
		}
	}
	time.Sleep(time.Minute)
	e := stored(t, under, "k")
	if e.CreatedAt < since && born == 0 || born != 0 && e.CreatedAt != born || e.ExpiresAt == 0 || s.Stats().TouchFails != 0 {
		t.Errorf("seed %d: created_at %v, want %v, not before %v; %+v, %d touches failed; saves:\n%s", seed, e.CreatedAt, born, since, e.Life, s.Stats().TouchFails, strings.Join(log, "\n"))
	}
	must(t, s.Close(t.Context()))
}

// What goes on for a save leaves the row of a later one to that, whatever comes between them.
func TestLeftSaveReadsALaterOne(t *testing.T) {
	for _, between := range []string{"a refused deletion", "a Get"} {
		t.Run(between, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				d.trip = time.Millisecond
				s := open(t, d, session, nil)
				now := instant(time.Now())
				born := now.Add(-10 * time.Hour) // two hours are left until the cap
				if between == "a Get" {
					born = now.Add(10*time.Second - session.MaxLifetime) // ten seconds
				}
				under.Plant("k", 1, driver.Life{CreatedAt: born, ExpiresAt: min(now.Add(session.IdleGrace), born.Add(session.MaxLifetime))})

				type mark struct{}
				var late, slow atomic.Bool
				d.before = func(call context.Context, op, _ string) error {
					switch {
					case op != "get":
					case call.Value(mark{}) != nil && late.Load(): // of what goes on
						return sleep(call, 3*time.Second)
					case slow.Load(): // the last Upsert's read after its write
						return sleep(call, time.Second)
					}
					return nil
				}
				repo := refuses{leaves{hoard: under}, func(context.Context, string) error { return errDown }}
				w := func(caller func()) *slidingttl.Wrapped[string, int, int] {
					repo := repo
					repo.caller = caller
					w, err := slidingttl.Wrap[string, int](repo, s, func(id string) string { return id }, nil)
					must(t, err)
					return w
				}

				// An Upsert runs out of time once its value is written: its expiry is still to be.
				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), mark{}, true))
				defer cancel()
				wantErr(t, w(func() { late.Store(true); cancel() }).Upsert(ctx, "k", 2), context.Canceled)
				time.Sleep(100 * time.Millisecond) // what goes on has sent its read

				want := born
				if between == "a Get" { // a new life begins, as Wrap says
					if _, err := w(nil).Get(t.Context(), "k"); err != nil {
						t.Fatal(err)
					}
					want = stored(t, under, "k").CreatedAt
				} else { // the caller tries again, and is told that all is done
					must(t, w(nil).Upsert(t.Context(), "k", 2))
					if c := stored(t, under, "k").CreatedAt; c != born {
						t.Fatalf("created_at is %v later than it was", c.Sub(born))
					}
					wantErr(t, w(nil).Delete(t.Context(), "k"), errDown)
				}
				before := stored(t, under, "k")

				time.Sleep(time.Until(now.Time().Add(2900 * time.Millisecond)))
				must(t, w(func() { slow.Store(true) }).Upsert(t.Context(), "k", 3)) // the only one since then
				slow.Store(false)
				promised := min(driver.Floor(time.Now()).Add(session.IdleGrace-2*time.Second), want.Add(session.MaxLifetime))
				time.Sleep(20 * time.Second)
				e := stored(t, under, "k")
				if e.CreatedAt != want {
					t.Errorf("before the last Upsert the record had %+v, after it %+v: created_at has moved by %v (%d touches failed)", before.Life, e.Life, e.CreatedAt.Sub(want), s.Stats().TouchFails)
				}
				if _, err := s.Peek(t.Context(), "k"); e.ExpiresAt < promised {
					t.Errorf("it dies %v early; 20 s after the Upsert a read says %v", promised.Sub(e.ExpiresAt), err)
				}
			})
		})
	}
}

// A value that tells when it was created reaches its cap before its expiry is written: the store is told when it died.
func TestToldCapPassesBeforeTheExpiry(t *testing.T) {
	for _, left := range []bool{true, false} {
		t.Run(fmt.Sprint("the caller has left: ", left), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				d.trip = time.Millisecond
				s := open(t, d, session, nil)
				told := time.Now().Add(time.Second - session.MaxLifetime)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var slow atomic.Bool
				d.before = func(call context.Context, op, _ string) error {
					if op == "get" && slow.Load() {
						return sleep(call, 2*time.Second)
					}
					return nil
				}
				w := wrapLeaves(t, s, leaves{under, func() {
					if slow.Store(true); left {
						cancel()
					}
				}}, &slidingttl.WrapOptions[int]{CreatedAt: func(int) time.Time { return told }})
				wantErr(t, w.Upsert(ctx, "k", 1), map[bool]error{true: context.Canceled, false: slidingttl.ErrNotFound}[left])
				time.Sleep(10 * time.Second)
				want := driver.Life{CreatedAt: instant(told), ExpiresAt: instant(told.Add(session.MaxLifetime))}
				if e := stored(t, under, "k"); e.Life != want {
					t.Errorf("the life is %+v, want %+v", e.Life, want)
				}
				wantErr(t, s.Keep(t.Context(), "k"), slidingttl.ErrNotFound)
			})
		})
	}
}

// Close counts the expiry of a value past its cap that a save was to write, and that hangs.
func TestCloseBesideALeftSavePastItsCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return hangs(ctx)
			}
			return ctx.Err()
		}
		s, err := slidingttl.New(d, session, nil)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := wrapLeaves(t, s, leaves{under, cancel}, &slidingttl.WrapOptions[int]{CreatedAt: func(int) time.Time { return time.Now().Add(-session.MaxLifetime) }})
		wantErr(t, w.Upsert(ctx, "k", 1), context.Canceled)
		synctest.Wait()
		closing, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		drain, ok := errors.AsType[*slidingttl.DrainError](s.Close(closing))
		if !ok || drain.Abandoned != 1 {
			t.Errorf("Close says %+v", drain)
		}
		synctest.Wait()
	})
}

// What goes on for a save whose key a later one has written is no failure, and neither Flush nor Close reports it. What a
// transaction has written may be rolled back, and ends nothing.
func TestLeftSaveThatIsOver(t *testing.T) {
	for _, later := range []string{"flush", "close", "rolled back"} {
		t.Run(later, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				type mark struct{}
				var written atomic.Bool
				d.before = func(ctx context.Context, op, _ string) error {
					if op == "get" && ctx.Value(mark{}) != nil && written.Load() {
						return sleep(ctx, time.Second)
					}
					return nil
				}
				s, err := slidingttl.New(d, session, nil)
				must(t, err)
				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), mark{}, true))
				defer cancel()
				w := wrapLeaves(t, s, leaves{under, func() { written.Store(true); cancel() }}, nil)
				wantErr(t, w.Upsert(ctx, "k", 1), context.Canceled)
				by := t.Context()
				if later == "rolled back" {
					by = driver.WithUndo(by)
				}
				must(t, wrapLeaves(t, s, leaves{hoard: under}, nil).Upsert(by, "k", 2))
				switch later {
				case "flush":
					must(t, s.Flush(t.Context()))
				case "close":
					closing, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer stop()
					must(t, s.Close(closing))
				case "rolled back":
					under.Plant("k", 1, driver.Life{})
					time.Sleep(2 * time.Second)
					if e := stored(t, under, "k"); e.CreatedAt == 0 {
						t.Error("the record that stands has no life")
					}
				}
				if n := s.Stats().TouchFails; n != 0 {
					t.Errorf("%d touches count as failed", n)
				}
				must(t, s.Close(t.Context()))
				synctest.Wait()
			})
		})
	}
}
