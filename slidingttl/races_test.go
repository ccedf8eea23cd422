package slidingttl_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// byKind is a policy by value: 30 minutes idle for a session that ends with the
// browser, 30 days for one that is remembered.
func byKind(v int) slidingttl.Policy {
	if v == remembered {
		return slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour}
	}
	return session
}

const (
	brief      = 0
	remembered = 1
)

// once runs f on the first call of op only.
func once(op string, f func()) func(string) {
	var done atomic.Bool
	return func(called string) {
		if called == op && done.CompareAndSwap(false, true) {
			f()
		}
	}
}

// touchHook is the memory driver with a function that is called just before a touch lands.
type touchHook struct {
	*memory.Driver[int]
	before func()
}

func (h *touchHook) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if f := h.before; f != nil {
		h.before = nil
		f()
	}
	return h.Driver.Touch(ctx, key, was, life, now)
}

// maxSkew is what Options.MaxSkew is by default.
const maxSkew = time.Minute

// Promise 4: a touch lands only on the version it was planned for.
func TestTouchLandsOnNoOtherVersion(t *testing.T) {
	opts := func(mode slidingttl.TouchMode) *slidingttl.Options[int] {
		return &slidingttl.Options[int]{PolicyOf: byKind, Touches: mode}
	}
	check := func(t *testing.T, d driver.Driver[int]) {
		t.Helper()
		most := instant(time.Now()).Add(session.IdleGrace + maxSkew + time.Second)
		if e := stored(t, d, "k"); e.Value != brief || e.ExpiresAt > most {
			t.Errorf("value %d expires %v later than its policy allows", e.Value, e.ExpiresAt.Sub(most))
		}
	}
	for name, mode := range map[string]slidingttl.TouchMode{"wait": slidingttl.Wait, "background": slidingttl.Background} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				other := open(t, under, session, opts(slidingttl.Wait))
				s := open(t, d, session, opts(mode))
				must(t, s.Insert(t.Context(), "k", remembered))
				time.Sleep(time.Hour)
				overwrite := once("touch", func() { must(t, other.Upsert(t.Context(), "k", brief)) })
				d.before = func(_ context.Context, op, _ string) error { overwrite(op); return nil }
				_, err := s.Get(t.Context(), "k")
				must(t, err)
				synctest.Wait()
				// What the overwrite left may be lowered by a reader.
				_, err = s.Get(t.Context(), "k")
				must(t, err)
				synctest.Wait()
				check(t, under)
			})
		})
	}
	t.Run("memory", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m, err := memory.New[int](nil)
			must(t, err)
			defer m.Close()
			d := &touchHook{Driver: m}
			other := open(t, driver.Driver[int](m), session, opts(slidingttl.Wait))
			s := open(t, driver.Driver[int](d), session, opts(slidingttl.Wait))
			must(t, s.Insert(t.Context(), "k", remembered))
			time.Sleep(time.Hour)
			d.before = func() { must(t, other.Upsert(t.Context(), "k", brief)) }
			for range 2 {
				_, err = s.Get(t.Context(), "k")
				must(t, err)
			}
			check(t, m)
		})
	})
}

// Promise 4: after a conflict the touch is planned by the policy of the value that
// is there now.
func TestConflictIsPlannedByTheNewValuesPolicy(t *testing.T) {
	day := slidingttl.Policy{IdleGrace: 12 * time.Hour, MaxLifetime: 24 * time.Hour}
	policyOf := func(v int) slidingttl.Policy {
		if v == brief {
			return day
		}
		return byKind(v)
	}
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		opts := &slidingttl.Options[int]{PolicyOf: policyOf}
		other, s := open(t, under, session, opts), open(t, d, session, opts)
		must(t, s.Insert(t.Context(), "k", brief))
		time.Sleep(time.Hour)
		overwrite := once("touch", func() { must(t, other.Upsert(t.Context(), "k", remembered)) })
		d.before = func(_ context.Context, op, _ string) error { overwrite(op); return nil }
		_, err := s.Get(t.Context(), "k")
		must(t, err)
		if e := stored(t, under, "k"); e.ExpiresAt < instant(time.Now()).Add(byKind(remembered).IdleGrace) {
			t.Errorf("a value of 30 days expires in %v", e.ExpiresAt.Sub(instant(time.Now())))
		}
	})
}

// Promise 8: a touch that was served by one that landed since its read says until when
// the record lives by the policy of the value that is there now.
func TestServedTouchTellsByTheNewValuesPolicy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		opts := &slidingttl.Options[int]{PolicyOf: byKind}
		other, s := open(t, under, session, opts), open(t, d, session, opts)
		must(t, s.Insert(t.Context(), "k", brief))
		time.Sleep(time.Minute)
		meanwhile := once("get", func() {
			must(t, other.Upsert(t.Context(), "k", remembered))
			time.Sleep(time.Second)
			_, err := s.Get(t.Context(), "k")
			must(t, err)
		})
		d.after = func(op, _ string) { meanwhile(op) }
		until, err := s.Touch(t.Context(), "k")
		must(t, err)
		if e := stored(t, under, "k"); instant(until) != e.ExpiresAt {
			t.Errorf("Touch says %v less than what is stored", e.ExpiresAt.Sub(instant(until)))
		}
	})
}

// Promise 3: a touch that landed before another process brought the expiry down, under a
// tighter policy, serves no read of what that left, however late its answer comes.
func TestLateAnswerServesNoLaterRead(t *testing.T) {
	for name, late := range map[string]time.Duration{
		"before the read's": 300 * time.Millisecond, "after the read's": 700 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				tight := slidingttl.Policy{IdleGrace: time.Second, MaxLifetime: time.Hour}
				s := open(t, d, withSlack(session, 5*time.Minute), nil)
				other := open(t, under, tight, &slidingttl.Options[int]{MaxSkew: time.Millisecond})
				must(t, s.Insert(t.Context(), "k", 1))
				time.Sleep(6 * time.Minute)
				slowTouch := once("touch", func() { time.Sleep(late) })
				var second atomic.Bool
				slowRead := once("get", func() { time.Sleep(500 * time.Millisecond) })
				d.after = func(op, _ string) {
					if slowTouch(op); second.Load() {
						slowRead(op)
					}
				}
				first := make(chan error)
				go func() {
					_, err := s.Get(t.Context(), "k")
					first <- err
				}()
				synctest.Wait()
				time.Sleep(time.Millisecond) // it has landed, and its answer is on its way
				_, err := other.Get(t.Context(), "k")
				must(t, err)
				time.Sleep(100 * time.Millisecond)
				second.Store(true)
				read := time.Now()
				_, err = s.Get(t.Context(), "k")
				must(t, err)
				must(t, <-first)
				time.Sleep(time.Second) // the read's touch, behind one that is late
				if e, least := stored(t, under, "k"), instant(read.Add(tight.IdleGrace)); e.ExpiresAt < least {
					t.Errorf("what was read dies %v before even the tighter policy's deadline", least.Sub(e.ExpiresAt))
				}
			})
		})
	}
}

// brink is a second's grace, for reads around a death.
var brink = slidingttl.Policy{IdleGrace: time.Second, MaxLifetime: time.Hour}

// Promise 3: of two reads just before the expiry one touches; the other, whose
// answer comes after the expiry that it read, still finds a live record.
func TestSlowReadNearDeathFindsTheTouchedRecord(t *testing.T) {
	for name, read := range map[string]func(context.Context, *slidingttl.Store[int]) error{
		"Get":  func(ctx context.Context, s *slidingttl.Store[int]) error { _, err := s.Get(ctx, "k"); return err },
		"Peek": func(ctx context.Context, s *slidingttl.Store[int]) error { _, err := s.Peek(ctx, "k"); return err },
		"GetMulti": func(ctx context.Context, s *slidingttl.Store[int]) error {
			m, err := s.GetMulti(ctx, []string{"k"})
			if err == nil && len(m) == 0 {
				err = slidingttl.ErrNotFound
			}
			return err
		},
		"PeekMulti": func(ctx context.Context, s *slidingttl.Store[int]) error {
			m, err := s.PeekMulti(ctx, []string{"k"})
			if err == nil && len(m) == 0 {
				err = slidingttl.ErrNotFound
			}
			return err
		},
		"Touch": func(ctx context.Context, s *slidingttl.Store[int]) error { _, err := s.Touch(ctx, "k"); return err },
		"Keep":  func(ctx context.Context, s *slidingttl.Store[int]) error { return s.Keep(ctx, "k") },
		"Update": func(ctx context.Context, s *slidingttl.Store[int]) error {
			_, err := s.Update(ctx, "k", func(v int) (int, error) { return v, nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				fast, under := newRemote[int](time.Millisecond)
				slow := over(under)
				a, b := open(t, fast, brink, nil), open(t, slow, brink, nil)
				must(t, a.Insert(t.Context(), "k", 1))
				time.Sleep(990 * time.Millisecond)
				delayed := once("get", func() { time.Sleep(100 * time.Millisecond) })
				slow.after = func(op, _ string) { delayed(op) }
				answer := make(chan error, 1)
				go func() { answer <- read(t.Context(), b) }()
				time.Sleep(time.Millisecond)
				_, err := a.Get(t.Context(), "k")
				must(t, err)
				if err := <-answer; err != nil {
					t.Errorf("the slow read of a record that never died: %v", err)
				}
			})
		})
	}
}

// Promise 3: a touch that waited beyond the expiry that was read asks the store
// before it is called lost.
func TestQueuedTouchAsksTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		slow := over(under)
		s := open(t, d, brink, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 1})
		other := open(t, slow, brink, nil)
		born := time.Now()
		until := func(ms int) { time.Sleep(time.Until(born.Add(time.Duration(ms) * time.Millisecond))) }
		must(t, s.Insert(t.Context(), "busy", 1))
		must(t, s.Insert(t.Context(), "k", 1))
		held := once("touch", func() { until(1100) }) // the only worker
		d.before = func(_ context.Context, op, _ string) error { held(op); return nil }
		late := once("touch", func() { until(960) })
		slow.before = func(_ context.Context, op, _ string) error { late(op); return nil }

		until(900)
		_, err := s.Get(t.Context(), "busy")
		must(t, err)
		until(940)
		var others sync.WaitGroup
		others.Go(func() { _, err := other.Get(t.Context(), "k"); must(t, err) })
		until(950)
		_, err = s.Get(t.Context(), "k") // sees 1000, waits behind busy
		must(t, err)
		others.Wait() // 1940 is stored
		until(1200)
		synctest.Wait()
		if e, want := stored(t, under, "k"), instant(born)+1950; e.ExpiresAt < want {
			t.Errorf("expires %v before the deadline that was promised", want.Sub(e.ExpiresAt))
		}
	})
}

// Promise 9: a caller that joins a touch planned before the caller's own read does not
// inherit that this touch found its record dead.
func TestNobodyInheritsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s, other := open(t, d, brink, nil), open(t, under, brink, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		born := time.Now()
		until := func(ms int) { time.Sleep(time.Until(born.Add(time.Duration(ms) * time.Millisecond))) }
		held := once("touch", func() { until(700) })
		d.before = func(_ context.Context, op, _ string) error { held(op); return nil }
		answered := once("touch", func() { until(1700) }) // with the life of 600, dead at 1600
		d.after = func(op, _ string) { answered(op) }
		until(500)
		first := make(chan error, 1)
		go func() { _, err := s.Get(t.Context(), "k"); first <- err }()
		until(600)
		_, err := other.Get(t.Context(), "k")
		must(t, err)
		until(1500)
		_, err = other.Get(t.Context(), "k")
		must(t, err)
		until(1650)
		_, err = s.Get(t.Context(), "k") // read 2500, joins
		must(t, err)
		must(t, <-first)
		time.Sleep(time.Second / 10) // the read's touch, behind one that is late
		if e, want := stored(t, under, "k"), instant(born)+2650; e.ExpiresAt < want {
			t.Errorf("expires %v before the deadline that was promised", want.Sub(e.ExpiresAt))
		}
		if st := s.Stats(); st.TouchLost != 0 {
			t.Errorf("%d touches lost of a record that never died", st.TouchLost)
		}
	})
}

// Promise 11: the touch that a read found due while the store closed is done, or
// Close says that it is not.
func TestCloseDropsNoTouchOfARead(t *testing.T) {
	for name, mode := range map[string]slidingttl.TouchMode{"wait": slidingttl.Wait, "background": slidingttl.Background} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				d.trip = 50 * time.Millisecond
				s, err := slidingttl.New(d, session, &slidingttl.Options[int]{Touches: mode})
				must(t, err)
				now := instant(time.Now())
				under.Plant("k", 1, driver.Life{CreatedAt: now, ExpiresAt: now.Add(session.IdleGrace)})
				time.Sleep(time.Minute)
				promised := instant(time.Now()).Add(session.IdleGrace)
				read := make(chan error, 1)
				go func() { _, err := s.Get(t.Context(), "k"); read <- err }()
				time.Sleep(10 * time.Millisecond)
				cerr := s.Close(t.Context())
				if err := <-read; err != nil {
					wantErr(t, err, slidingttl.ErrClosed) // a read that was refused promised nothing
					return
				}
				var drain *slidingttl.DrainError
				if e := stored(t, under, "k"); e.ExpiresAt < promised && !errors.As(cerr, &drain) {
					t.Errorf("the touch was dropped: Close said %v, the expiry falls %v short, %+v", cerr, promised.Sub(e.ExpiresAt), s.Stats())
				}
			})
		})
	}
}

// A context's error is returned only to the caller whose context ended.
func TestGivenUpTouchIsNoContextError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		s, err := slidingttl.New(d, session, nil)
		must(t, err)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		d.trip = time.Second
		touched := make(chan error, 1)
		go func() { _, err := s.Touch(t.Context(), "k"); touched <- err }()
		time.Sleep(2500 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = s.Close(ctx)
		if err := <-touched; err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("Touch, whose context lives, answered %v", err)
		}
	})
}

// Promise 10: a record without created_at is adopted although a touch of the record that
// was there before is under way, and lands before it.
func TestAdoptionIsNotServedByATouchOfAnotherRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		plant := func(v int) {
			must(t, under.Delete(t.Context(), "k"))
			_, err := under.Insert(t.Context(), "k", v, driver.Life{}, instant(time.Now()))
			must(t, err)
		}
		plant(1)
		first := once("touch", func() { // has landed, and answers late
			plant(2)
			time.Sleep(50 * time.Millisecond)
		})
		d.after = func(op, _ string) { first(op) }
		var reads sync.WaitGroup
		reads.Go(func() {
			_, err := s.Get(t.Context(), "k")
			must(t, err)
		})
		time.Sleep(10 * time.Millisecond)
		v, err := s.Get(t.Context(), "k")
		must(t, err)
		reads.Wait()
		if e := stored(t, under, "k"); v != 2 || e.CreatedAt == 0 {
			t.Errorf("read %d, which is stored with %+v", v, e.Meta)
		}
	})
}
