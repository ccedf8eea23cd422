package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// waiting returns a store in Background mode over d with n touches that wait.
func waiting(t *testing.T, d *remote[int], under *hoard[int], n int, opts slidingttl.Options[int]) *slidingttl.Store[int] {
	t.Helper()
	opts.Touches = slidingttl.Background
	s, err := slidingttl.New(d, session, &opts)
	must(t, err)
	for i := range n {
		plant(under, fmt.Sprint(i), 20*time.Minute)
		read(t, s, fmt.Sprint(i))
	}
	return s
}

// Promise 11: Close returns when its context ends, whatever the touches that wait do, and nothing is
// left of them.
func TestCloseReturnsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, 2000, 10000} {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[int](time.Millisecond)
			d.before = func(ctx context.Context, op, _ string) error {
				if op != "touch" {
					return nil
				}
				if err := sleep(ctx, rand.N(20*time.Millisecond)); err != nil || rand.N(10) > 0 {
					return err
				}
				return errDown
			}
			var told atomic.Int64
			s := waiting(t, d, under, n, slidingttl.Options[int]{OnTouchError: func(_ context.Context, _ string, err error) {
				if errors.Is(err, slidingttl.ErrClosed) {
					told.Add(1)
				}
			}})
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			pending, began := s.Stats().Pending, time.Now()
			err := s.Close(ctx)
			took := time.Since(began)
			var drain *slidingttl.DrainError
			if errors.As(err, &drain) && (drain.Abandoned == 0 || !errors.Is(err, context.DeadlineExceeded)) || took > 200*time.Millisecond || n == 10000 && drain == nil {
				t.Errorf("after %v of 200ms, with %d pending: %v", took, pending, err)
			}
			if n := s.Stats().Pending; n != 0 {
				t.Errorf("%d touches still wait", n)
			}
			time.Sleep(time.Second)
			accounted(t, s.Stats())
			if drain != nil && drain.Abandoned != int(told.Load()) {
				t.Errorf("Close gave up %d touches, and %d were told: %+v", drain.Abandoned, told.Load(), s.Stats())
			}
		})
	}
}

// Promise 11: neither a driver nor a hook that does not return keeps Close from returning.
func TestCloseWaitsForNobody(t *testing.T) {
	stuck := make(chan struct{})
	for name, c := range map[string]struct {
		touch func(context.Context) error
		opts  slidingttl.Options[int]
	}{
		"driver": {touch: func(context.Context) error { <-stuck; return nil }},
		"hook": {
			touch: func(context.Context) error { return errDown },
			opts:  slidingttl.Options[int]{OnTouchError: func(context.Context, string, error) { <-stuck }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				stuck = make(chan struct{})
				d, under := newRemote[int](time.Millisecond)
				d.before = func(ctx context.Context, op, _ string) error {
					if op == "touch" {
						return c.touch(ctx)
					}
					return nil
				}
				s := waiting(t, d, under, 3, c.opts)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				if err := s.Close(ctx); time.Since(began) > time.Second {
					t.Errorf("Close took %v: %v", time.Since(began), err)
				}
				close(stuck)
			})
		})
	}
}

// A hook may call Close, with a context that ends.
func TestCloseFromAHook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		failTouches(d, all)(true)
		var s atomic.Pointer[slidingttl.Store[int]]
		closed := make(chan time.Duration, 10)
		s.Store(waiting(t, d, under, 0, slidingttl.Options[int]{OnTouchError: func(context.Context, string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			_ = s.Load().Close(ctx)
			closed <- time.Since(began)
		}}))
		plant(under, "k", 20*time.Minute)
		read(t, s.Load(), "k")
		if took := <-closed; took > time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// A caller's function that ends its goroutine fails the call and nothing else.
func TestGoexitInPolicyOf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		var exit atomic.Bool
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{PolicyOf: func(v int) slidingttl.Policy {
			if exit.Load() && v == 13 {
				runtime.Goexit()
			}
			return session
		}})
		must(t, err)
		exit.Store(true)
		err = s.UpsertMulti(t.Context(), []slidingttl.Item[int]{{Key: "a", Value: 1}, {Key: "b", Value: 13}, {Key: "c", Value: 3}})
		var failed slidingttl.KeyErrors
		if !errors.As(err, &failed) || len(failed) != 1 || failed[0].Index != 1 {
			t.Errorf("%v, want an error of the second item", err)
		}
		must(t, s.Close(t.Context()))
	})
}

type panicking struct{ profiles }

func (p panicking) Get(ctx context.Context, id int) (profile, error) {
	if id == 13 {
		panic("boom")
	}
	return p.profiles.Get(ctx, id)
}

// A panic in a repository is the error of its id in a call for many.
func TestPanicInRepository(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		s := open(t, d, session, nil)
		w, err := slidingttl.Wrap(panicking{profiles{under}}, s, profileKey, nil)
		must(t, err)
		must(t, w.Upsert(t.Context(), 1, profile{}))
		all, err := w.GetMulti(t.Context(), []int{1, 13})
		var failed slidingttl.KeyErrors
		var panicked *slidingttl.PanicError
		if len(all) != 1 || !errors.As(err, &failed) || len(failed) != 1 || failed[0].Index != 1 || !errors.As(err, &panicked) {
			t.Errorf("%v, %v", all, err)
		}
	})
}

// A hook that hangs when the state changes, or ends its goroutine, keeps neither Close nor other touches
// from ending.
func TestCloseBesideHooksOfTheState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		failTouches(d, all)(true)
		stuck := make(chan struct{})
		defer close(stuck)
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{Observer: &slidingttl.Observer{Breaker: func(open bool) {
			if !open {
				<-stuck
			}
		}}})
		must(t, err)
		for i := range 5 {
			key := fmt.Sprint(i)
			plant(under, key, 2*time.Second)
			read(t, s, key)
		}
		time.Sleep(time.Minute) // the records die, and the trouble is over
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_ = s.Close(ctx)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
	})
}

func TestGoexitInAHookOfWhatIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return hangs(ctx)
			}
			return nil
		}
		s := waiting(t, d, under, 100, slidingttl.Options[int]{Workers: 1, OnTouchError: func(context.Context, string, error) { runtime.Goexit() }})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_ = s.Close(ctx)
		time.Sleep(time.Second)
		accounted(t, s.Stats())
	})
}

// What Close has given up ends at once, whatever its hooks do, and a wrapped repository is asked no more.
func TestGivenUpEndsBesideAHungHook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return hangs(ctx)
			}
			return nil
		}
		stuck := make(chan struct{})
		defer close(stuck)
		s := waiting(t, d, under, 100, slidingttl.Options[int]{Workers: 1, OnTouchError: func(context.Context, string, error) { <-stuck }})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_ = s.Close(ctx)
		time.Sleep(time.Second)
		accounted(t, s.Stats())
	})
}

// A call over a local driver whose context ends makes its touches all the same.
func TestLocalTouchOutlivesItsCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, err := memory.New[int](nil)
		must(t, err)
		defer func() { must(t, d.Close()) }()
		s := open[int](t, d, withSlack(session, time.Minute), nil)
		must(t, s.Insert(t.Context(), "k", 1))
		e := stored[int](t, d, "k")
		time.Sleep(10 * time.Minute)
		_, _ = s.GetMulti(&leaving{Context: t.Context()}, []string{"k"})
		if now := stored[int](t, d, "k"); now.ExpiresAt == e.ExpiresAt || s.Stats().TouchFails > 0 {
			t.Errorf("not touched: %+v", s.Stats())
		}
	})
}

// leaving is the context of a caller that leaves as soon as its call has begun.
type leaving struct {
	context.Context
	asked bool
}

func (l *leaving) Err() error {
	if l.asked {
		return context.Canceled
	}
	l.asked = true
	return nil
}

// What was given up while two Closes waited is said by both, and not again.
func TestTwoCloses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, time.Hour)
			}
			return nil
		}
		var told atomic.Int32
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 5, OnTouchError: func(_ context.Context, _ string, err error) {
			wantErr(t, err, slidingttl.ErrClosed)
			told.Add(1)
		}})
		must(t, err)
		for i := range 20 {
			plant(under, fmt.Sprint(i), time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		first := make(chan error, 1)
		go func() { first <- s.Close(context.Background()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, err := range []error{s.Close(ctx), <-first} {
			if drain, ok := errors.AsType[*slidingttl.DrainError](err); !ok || drain.Abandoned != 20 {
				t.Errorf("Close: %v, want 20 given up", err)
			}
		}
		must(t, s.Close(t.Context()))
		if told.Load() != 20 {
			t.Errorf("%d hooks", told.Load())
		}
	})
}

// A hook that hangs is counted by Close, whichever it is: it may use what the caller closes next.
func TestCloseCountsHungHooks(t *testing.T) {
	for name, hook := range map[string]func(hang func()) *slidingttl.Options[int]{
		"touch": func(hang func()) *slidingttl.Options[int] {
			return &slidingttl.Options[int]{Observer: &slidingttl.Observer{Touch: func(context.Context, slidingttl.TouchEvent) { hang() }}}
		},
		"breaker": func(hang func()) *slidingttl.Options[int] {
			return &slidingttl.Options[int]{Observer: &slidingttl.Observer{Breaker: func(bool) { hang() }}}
		},
		"log": func(hang func()) *slidingttl.Options[int] {
			return &slidingttl.Options[int]{Logger: slog.New(hanging{slog.DiscardHandler, hang})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				down := failTouches(d, all)
				down(true)
				release := make(chan bool)
				s, err := slidingttl.New(d, session, hook(func() { <-release }))
				must(t, err)
				for _, key := range []string{"a", "b", "c", "d", "e"} { // as many as open the breaker
					plant(under, key, time.Minute)
					read(t, s, key)
				}
				down(false)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if drain, ok := errors.AsType[*slidingttl.DrainError](s.Close(ctx)); !ok || drain.Hooks != 1 || drain.Abandoned+drain.Calls != 0 {
					t.Errorf("Close: %v, want one hook", drain)
				}
				close(release)
				must(t, s.Close(t.Context()))
			})
		})
	}
}

// hanging is a log handler that calls hang.
type hanging struct {
	slog.Handler
	hang func()
}

func (hanging) Enabled(context.Context, slog.Level) bool { return true }

func (h hanging) Handle(context.Context, slog.Record) error {
	h.hang()
	return nil
}

// A call that Close has given up makes no further trip that writes.
func TestNoWriteAfterClose(t *testing.T) {
	slack := session
	slack.Slack = time.Minute
	for name, call := range map[string]func(*slidingttl.Store[int]) error{
		"retire": func(s *slidingttl.Store[int]) error { return s.Retire(context.Background(), "a") },
		"upsert": func(s *slidingttl.Store[int]) error { return s.Upsert(context.Background(), "a", 2) },
		"update": func(s *slidingttl.Store[int]) error { return update(s, "a") },
		"insert": func(s *slidingttl.Store[int]) error { return s.Insert(context.Background(), "past its cap", 2) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s, err := slidingttl.New(d, slack, nil)
				must(t, err)
				plant(under, "a", time.Minute)
				now := instant(time.Now())
				under.Plant("past its cap", 1, driver.Life{CreatedAt: now.Add(-2 * session.MaxLifetime), ExpiresAt: now.Add(time.Hour)})
				release := make(chan bool)
				d.after = func(string, string) { <-release }
				ended := make(chan error, 1)
				go func() { ended <- call(s) }()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if drain, ok := errors.AsType[*slidingttl.DrainError](s.Close(ctx)); !ok || drain.Calls != 1 {
					t.Errorf("Close: %v, want one call", drain)
				}
				d.counts()
				close(release)
				if err := <-ended; !errors.Is(err, slidingttl.ErrClosed) || len(d.counts()) != 0 {
					t.Errorf("after Close: %v, with trips", err)
				}
			})
		})
	}
}

// Nor does one that the driver asks to plan again.
func TestNoPlanAfterClose(t *testing.T) {
	for op, call := range map[string]func(*slidingttl.Store[int]) error{
		"insert":    func(s *slidingttl.Store[int]) error { return s.Insert(context.Background(), "a", 1) },
		"overwrite": func(s *slidingttl.Store[int]) error { return s.Upsert(context.Background(), "a", 1) },
	} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, _ := newRemote[int](time.Millisecond)
				d.Has = []any{(*driver.Overwriter[int])(nil)}
				release := make(chan bool)
				d.before = func(context.Context, string, string) error {
					<-release
					return driver.ErrLate
				}
				s, err := slidingttl.New(d, session, nil)
				must(t, err)
				ended := make(chan error, 1)
				go func() { ended <- call(s) }()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				wantErr(t, s.Close(ctx), context.DeadlineExceeded)
				close(release)
				if err := <-ended; !errors.Is(err, slidingttl.ErrClosed) || d.count(op) != 1 {
					t.Errorf("after Close: %v, %d trips", err, d.count(op))
				}
			})
		})
	}
}

func update(s *slidingttl.Store[int], key string) error {
	_, err := s.Update(context.Background(), key, func(v int) (int, error) { return v + 1, nil })
	return err
}

// Touches over memory end with Close too.
func TestNoLocalTouchAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, err := memory.New[int](nil)
		must(t, err)
		defer d.Close()
		reads, resume := make(chan bool), make(chan bool)
		var held atomic.Bool
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{PolicyOf: func(int) slidingttl.Policy {
			if held.CompareAndSwap(true, false) {
				close(reads)
				<-resume
			}
			return session
		}})
		must(t, err)
		for i := range 10 {
			must(t, s.Insert(t.Context(), fmt.Sprint(i), i))
		}
		time.Sleep(time.Minute)
		held.Store(true)
		ended := make(chan error, 1)
		go func() {
			_, err := s.GetMulti(context.Background(), []string{"0", "1", "2"})
			ended <- err
		}()
		<-reads
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, s.Close(ctx), context.DeadlineExceeded)
		close(resume)
		must(t, <-ended)
		if st := s.Stats(); st.Touched != 0 || st.TouchFails != 3 || st.Broken == 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A touch that a call finds due after Close gave up is counted by the next Close.
func TestNextCloseCountsTouches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		release := make(chan bool)
		d.after = func(string, string) { <-release }
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{Touches: slidingttl.Background})
		must(t, err)
		plant(under, "a", time.Minute)
		go read(t, s, "a")
		synctest.Wait()
		for i, touches := range []int{0, 1} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if drain, ok := errors.AsType[*slidingttl.DrainError](s.Close(ctx)); !ok || drain.Abandoned != touches {
				t.Errorf("Close %d: %v, want %d touches", i, drain, touches)
			}
			if i == 0 {
				close(release)
				synctest.Wait()
			}
		}
		must(t, s.Close(t.Context()))
	})
}

// No hook is told of the state after Close.
func TestNoHookAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		failTouches(d, all)(true)
		var told []bool
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{Observer: &slidingttl.Observer{Breaker: func(open bool) { told = append(told, open) }}})
		must(t, err)
		breakOpen(t, s, under)
		wantErr(t, s.Close(t.Context()), errDown)
		time.Sleep(time.Hour)
		s.Stats()
		synctest.Wait()
		if len(told) != 1 || !told[0] {
			t.Errorf("told %v", told)
		}
	})
}
