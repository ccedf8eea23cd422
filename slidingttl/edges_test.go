package slidingttl_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// When Close gives up, callers of a touch that is under way return, whatever its driver and hooks do,
// and are not told that nothing was written.
func TestGivenUpCallersReturn(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[int](time.Millisecond)
			release := make(chan bool)
			d.before = func(ctx context.Context, op, _ string) error {
				if op == "touch" && deaf {
					<-release
				} else if op == "touch" {
					<-ctx.Done()
				}
				return ctx.Err()
			}
			s, err := slidingttl.New(d, session, &slidingttl.Options[int]{OnTouchError: func(context.Context, string, error) { <-release }})
			must(t, err)
			plant(under, "a", time.Minute)
			ended := make(chan error, 2)
			go func() {
				_, err := s.Touch(context.Background(), "a")
				ended <- err
			}()
			synctest.Wait()
			time.Sleep(time.Second)
			go func() { ended <- s.Flush(context.Background()) }()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if drain, ok := errors.AsType[*slidingttl.DrainError](s.Close(ctx)); !ok || drain.Abandoned != 1 {
				t.Errorf("Close: %v", drain)
			}
			synctest.Wait()
			if len(ended) != 2 {
				t.Fatalf("deaf %v: %d of 2 calls have returned", deaf, len(ended))
			}
			ambiguous := 0
			for range 2 {
				err := <-ended
				wantErr(t, err, slidingttl.ErrClosed)
				if errors.Is(err, slidingttl.ErrAmbiguous) {
					ambiguous++
				}
			}
			if ambiguous == 0 {
				t.Error("Touch is told that nothing was written")
			}
			close(release)
			_ = s.Close(t.Context())
		})
	}
}

// learning is a remote store whose clock learns by a trip.
type learning struct {
	*remote[int]
	learn func()
}

func (l learning) Wrapped(capability any) (any, driver.Way) {
	if _, ok := capability.(*driver.Clock); ok {
		return nil, driver.Always
	}
	return l.remote.Wrapped(capability)
}

func (l learning) Now() time.Time { return time.Now() }
func (l learning) Bounds() (earliest, latest driver.Instant) {
	return driver.Floor(time.Now()), driver.Ceil(time.Now())
}
func (l learning) Learn(context.Context) error { l.learn(); return nil }

// A write whose clock learned the time while Close gave up is not sent.
func TestNoWriteAfterLearning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		release := make(chan bool)
		s, err := slidingttl.New(learning{d, func() { <-release }}, session, nil)
		must(t, err)
		ended := make(chan error, 1)
		go func() { ended <- s.Insert(context.Background(), "a", 1) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, s.Close(ctx), context.DeadlineExceeded)
		close(release)
		wantErr(t, <-ended, slidingttl.ErrClosed)
		if n := len(d.counts()); n != 0 {
			t.Errorf("%d kinds of trips", n)
		}
	})
}

// A deletion in a transaction keeps its key from being remembered for a minute, and no longer.
func TestDeletionInATransactionIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		s := open(t, d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour, Slack: 30 * time.Minute}, nil)
		must(t, s.Insert(t.Context(), "a", 1))
		must(t, s.Delete(driver.WithUndo(t.Context()), "a"))
		for _, tt := range []struct{ wait, reads int }{{0, 1}, {61, 0}, {3600, 0}} {
			time.Sleep(time.Duration(tt.wait) * time.Second)
			must(t, s.Upsert(t.Context(), "a", 1))
			d.counts()
			must(t, s.Keep(t.Context(), "a"))
			if n := d.counts()["get"]; n != tt.reads {
				t.Errorf("after %d s Keep takes %d reads, want %d", tt.wait, n, tt.reads)
			}
		}
	})
}

// A call for many in a transaction makes one call of the driver, or of the repository, after the other.
func TestManyInATransaction(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var now, most atomic.Int32
		busy := func() {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
		}
		d, under := newRemote[profile](time.Millisecond)
		s := open(t, d, session, nil)
		w, err := slidingttl.Wrap(busyReads{profiles{under}, busy}, s, profileKey, nil)
		must(t, err)
		items, ids := make([]slidingttl.Item[profile], 20), make([]int, 20)
		for i := range items {
			items[i], ids[i] = slidingttl.Item[profile]{Key: profileKey(i), Value: profile{Name: "ann"}}, i
		}
		in := driver.WithUndo(t.Context())
		d.before = func(context.Context, string, string) error { busy(); return nil }
		must(t, s.UpsertMulti(in, items))
		if found, err := w.GetMulti(in, ids); err != nil || len(found) != len(ids) {
			t.Errorf("GetMulti: %d, %v", len(found), err)
		}
		if n := most.Load(); n != 1 {
			t.Errorf("%d calls at once in one transaction", n)
		}
	})
}

// busyReads is a repository that is busy for each read.
type busyReads struct {
	profiles
	busy func()
}

func (r busyReads) Get(ctx context.Context, id int) (profile, error) {
	r.busy()
	return r.profiles.Get(ctx, id)
}

// A stale read just after this process deleted or retired a record makes nothing vouch for it.
func TestStaleReadAfterTheEnd(t *testing.T) {
	for name, end := range map[string]func(s *slidingttl.Store[int]) error{
		"delete": func(s *slidingttl.Store[int]) error { return s.Delete(context.Background(), "a") },
		"retire": func(s *slidingttl.Store[int]) error { return s.Retire(context.Background(), "a") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, _ := newLagging[int](time.Second)
				s := open(t, d, slidingttl.Policy{IdleGrace: 720 * time.Hour, MaxLifetime: 2160 * time.Hour, Slack: 72 * time.Hour}, nil)
				must(t, s.Insert(t.Context(), "a", 1))
				d.catchUp(t, "a")
				time.Sleep(time.Hour)
				must(t, end(s))
				_, _ = s.Get(t.Context(), "a")
				time.Sleep(100 * time.Millisecond)
				clear(d.view) // the reads catch up
				for range 3 {
					wantErr(t, s.Keep(t.Context(), "a"), slidingttl.ErrNotFound)
					time.Sleep(24 * time.Hour)
				}
			})
		})
	}
}

// heldLoad is a driver in memory that holds one Load up.
type heldLoad struct {
	*memory.Driver[int]
	held          atomic.Bool
	began, resume chan bool
}

func (h *heldLoad) Next() driver.Instant {
	now := h.Driver.Next()
	if h.held.CompareAndSwap(true, false) {
		close(h.began)
		<-h.resume
	}
	return now
}

// A Get that began before a policy was tightened does not move an expiry by the former one, whatever
// was written since.
func TestGetFromBeforeAPolicy(t *testing.T) {
	loose, tight := session, session
	loose.IdleGrace, loose.MaxLifetime, tight.IdleGrace = 720*time.Hour, 2160*time.Hour, time.Hour
	for name, meanwhile := range map[string]func(*slidingttl.Store[int]) error{
		"a get": func(s *slidingttl.Store[int]) error { return s.Keep(context.Background(), "a") },
		"two gets": func(s *slidingttl.Store[int]) error {
			time.Sleep(3 * time.Millisecond)
			return errors.Join(s.Keep(context.Background(), "a"), s.Keep(context.Background(), "a"))
		},
		"an update": func(s *slidingttl.Store[int]) error { return update(s, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				under, err := memory.New[int](nil)
				must(t, err)
				defer under.Close()
				d := &heldLoad{Driver: under, began: make(chan bool), resume: make(chan bool)}
				s := open(t, driver.Driver[int](d), loose, nil)
				must(t, s.Insert(t.Context(), "a", 1))
				time.Sleep(time.Minute)
				d.held.Store(true)
				ended := make(chan error)
				go func() {
					_, err := s.Get(context.Background(), "a")
					ended <- err
				}()
				<-d.began
				time.Sleep(time.Millisecond)
				must(t, s.SetPolicy(tight))
				must(t, meanwhile(s))
				close(d.resume)
				must(t, <-ended)
				e, err := s.Peek(t.Context(), "a")
				must(t, err)
				if left := e.ExpiresAt.Sub(instant(time.Now())); left > time.Hour+time.Second {
					t.Errorf("%v are left", left)
				}
			})
		})
	}
}

// unversioned shows the records of other programs with version zero, as some stores have them.
type unversioned struct{ *hoard[int] }

func (u unversioned) Get(ctx context.Context, key string) (driver.Entry[int], error) {
	e, err := u.hoard.Get(ctx, key)
	if e.CreatedAt == 0 {
		e.Version = 0
	}
	return e, err
}

func (u unversioned) real(key string, was driver.Meta) (driver.Meta, error) {
	e, err := u.hoard.Get(context.Background(), key)
	if shown := e.Meta; err == nil && was.CreatedAt == 0 {
		if shown.Version = 0; shown != was {
			return was, &driver.ConflictError{Found: shown}
		}
		return e.Meta, nil
	}
	return was, nil
}

func (u unversioned) Replace(ctx context.Context, key string, v int, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	was, err := u.real(key, was)
	if err != nil {
		return 0, err
	}
	return u.hoard.Replace(ctx, key, v, was, life, now)
}

func (u unversioned) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	was, err := u.real(key, was)
	if err != nil {
		return 0, err
	}
	return u.hoard.Touch(ctx, key, was, life, now)
}

// A write of another program is not taken for a touch where records have no version.
func TestOtherProgramsWriteWithoutVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := fakestore.New[int](time.Millisecond)
		s := open[int](t, unversioned{under}, session, nil)
		life := func(left time.Duration) driver.Life {
			return driver.Life{ExpiresAt: instant(time.Now()).Add(left)}
		}
		under.Plant("a", 1, life(time.Hour))
		calls := 0
		v, err := s.Update(t.Context(), "a", func(v int) (int, error) {
			if calls++; calls == 1 {
				under.Plant("a", 100, life(2*time.Hour))
			}
			return v + 1, nil
		})
		if must(t, err); v != 101 {
			t.Errorf("the update gave %d", v)
		}
		under.Plant("b", 1, life(time.Hour))
		e, err := s.Peek(t.Context(), "b")
		must(t, err)
		under.Plant("b", 100, life(2*time.Hour))
		if _, err := s.TouchEntry(t.Context(), "b", e); err != nil || stored(t, under, "b").CreatedAt != 0 {
			t.Errorf("TouchEntry touched the successor: %v", err)
		}
	})
}
