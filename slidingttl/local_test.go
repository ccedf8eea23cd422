package slidingttl_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestLocalHit: the short path of Get for a store in this process's memory keeps the same promises.
func TestLocalHit(t *testing.T) {
	for _, slack := range []time.Duration{0, 3 * time.Minute} {
		bubble(t, func(t *testing.T) {
			d, err := memory.New[int](nil)
			must(t, err)
			t.Cleanup(func() { _ = d.Close() })
			p := withSlack(session, slack)
			s := open(t, d, p, nil)
			must(t, s.Insert(t.Context(), "k", 1))
			born := time.Now()

			// Several accesses in a millisecond, each with a deadline of its own.
			for range 2000 {
				time.Sleep(300 * time.Microsecond)
				at := time.Now()
				if _, err := s.Get(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				if e := stored(t, d, "k"); e.ExpiresAt.Time().Before(at.Add(p.IdleGrace)) {
					t.Fatalf("read at %v, the record expires at %v", at, e.ExpiresAt.Time())
				}
			}

			st, due := s.Stats(), uint64(600) // milliseconds in which something was read
			if slack > 0 {
				due = 1 // in 2000 reads, which take 600 ms
			}
			if st.Hits != 2000 || st.Due != st.Touched || st.Touched > due+1 || st.Touched+1 < due {
				t.Errorf("%d hits counted of 2000, %d due, %d touched; want %d touches", st.Hits, st.Due, st.Touched, due)
			}

			// What may be undone is not touched.
			time.Sleep(4 * time.Minute)
			was := stored(t, d, "k")
			_, err = s.Get(driver.WithUndo(t.Context()), "k")
			must(t, err)
			if is := stored(t, d, "k"); is != was {
				t.Errorf("a read that may be undone has touched %+v to %+v", was.Life, is.Life)
			}
			_, err = s.Get(t.Context(), "k")
			must(t, err)
			if is := stored(t, d, "k"); is == was {
				t.Error("a read that is due has touched nothing")
			}

			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = s.Get(ended, "k")
			wantErr(t, err, context.Canceled)

			for {
				time.Sleep(p.IdleGrace / 2)
				_, err := s.Get(t.Context(), "k")
				if dead := time.Since(born) >= p.MaxLifetime; dead != errors.Is(err, slidingttl.ErrNotFound) {
					t.Fatalf("%v after its creation: error %v", time.Since(born), err)
				} else if dead {
					break
				}
			}

			must(t, s.Insert(t.Context(), "k", 1))
			must(t, s.Close(t.Context()))
			_, err = s.Get(t.Context(), "k")
			wantErr(t, err, slidingttl.ErrClosed)
		})
	}
}

// TestLocalTouchIsObserved: the observer is told of touches in memory too.
func TestLocalTouchIsObserved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, err := memory.New[int](nil)
		must(t, err)
		t.Cleanup(func() { _ = d.Close() })
		told := 0
		s := open(t, d, session, &slidingttl.Options[int]{Observer: &slidingttl.Observer{
			Touch: func(context.Context, slidingttl.TouchEvent) { told++ },
		}})
		must(t, s.Insert(t.Context(), "k", 1))
		for range 3 {
			time.Sleep(time.Minute)
			_, err = s.Get(t.Context(), "k")
			must(t, err)
		}
		if told != 3 {
			t.Errorf("the observer was told of %d touches, want 3", told)
		}
	})
}

// eachHold runs f in bubbles, once for each time that a Get reads the clock. hold is called with that
// reading done, and get is the Get of "k". The record there, of value 1, dies in half a second.
func eachHold(t *testing.T, opts *memory.Options[int], f func(t *testing.T, d *memory.Driver[int], other *slidingttl.Store[int], get func(hold func()) (int, error))) {
	t.Helper()
	for n, held := 1, true; held; n++ {
		held = false
		bubble(t, func(t *testing.T) {
			d, err := memory.New(opts)
			must(t, err)
			t.Cleanup(func() { _ = d.Close() })
			other := open(t, d, session, nil)
			calls, hold := 0, func() {}
			s := open(t, heldClock{d, func() {
				if calls++; calls == n {
					held = true
					hold()
				}
			}}, session, nil)
			must(t, other.Insert(t.Context(), "k", 1))
			time.Sleep(session.IdleGrace - 500*time.Millisecond)
			f(t, d, other, func(while func()) (int, error) {
				calls, hold = 0, while
				return s.Get(t.Context(), "k")
			})
		})
	}
}

// heldClock is the memory driver, with a function that is called whenever its clock has been read.
type heldClock struct {
	*memory.Driver[int]
	read func()
}

func (d heldClock) Now() time.Time {
	defer d.read()
	return d.Driver.Now()
}

func (d heldClock) Next() driver.Instant {
	defer d.read()
	return d.Driver.Next()
}

// TestLocalHitOfASuccessor: a Get that was held up after it read the clock, until its record had
// died and had a successor, takes nothing off the successor's life.
func TestLocalHitOfASuccessor(t *testing.T) {
	eachHold(t, nil, func(t *testing.T, d *memory.Driver[int], other *slidingttl.Store[int], get func(func()) (int, error)) {
		replaced := false
		_, err := get(func() { // the value is that of the time that the clock told
			replaced = true
			time.Sleep(time.Second)
			must(t, other.Insert(t.Context(), "k", 2))
			time.Sleep(2 * time.Millisecond)
		})
		must(t, err)
		if e := stored(t, d, "k"); replaced && (e.Value != 2 || e.ExpiresAt.Sub(e.CreatedAt) < session.IdleGrace) {
			t.Errorf("%d is stored, and lives for %v", e.Value, e.ExpiresAt.Sub(e.CreatedAt))
		}
	})
}

// TestLocalHitOfTheDead: a Get that was held up after it read the clock revives no record of which
// another call has said that it is dead, whether the driver still holds it or not.
func TestLocalHitOfTheDead(t *testing.T) {
	for name, answersDead := range map[string]func(ctx context.Context, s *slidingttl.Store[int]) bool{
		"Get": func(ctx context.Context, s *slidingttl.Store[int]) bool {
			_, err := s.Get(ctx, "k")
			return errors.Is(err, slidingttl.ErrNotFound)
		},
		"Peek": func(ctx context.Context, s *slidingttl.Store[int]) bool {
			_, err := s.Peek(ctx, "k")
			return errors.Is(err, slidingttl.ErrNotFound)
		},
		"GetMulti": func(ctx context.Context, s *slidingttl.Store[int]) bool {
			found, err := s.GetMulti(ctx, []string{"k"})
			return err == nil && len(found) == 0
		},
		"Update": func(ctx context.Context, s *slidingttl.Store[int]) bool {
			_, err := s.Update(ctx, "k", func(v int) (int, error) { return v, nil })
			return errors.Is(err, slidingttl.ErrNotFound)
		},
		"History": func(ctx context.Context, s *slidingttl.Store[int]) bool {
			_, err := s.History(ctx, "k")
			return err == nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, retain := range []time.Duration{0, time.Hour} {
				eachHold(t, &memory.Options[int]{Retain: retain}, func(t *testing.T, d *memory.Driver[int], other *slidingttl.Store[int], get func(func()) (int, error)) {
					dead := false
					_, _ = get(func() {
						time.Sleep(500*time.Millisecond + 100*time.Microsecond) // before the sweeper comes
						dead = answersDead(t.Context(), other)
					})
					if _, err := other.Peek(t.Context(), "k"); dead && !errors.Is(err, slidingttl.ErrNotFound) {
						t.Errorf("retained for %v: %s has said that the record is dead, and then it lives: %v", retain, name, err)
					}
				})
			}
		})
	}
}

// TestLocalSlideOfTheDead is TestLocalHitOfTheDead for a Get that was held up just before it touches.
func TestLocalSlideOfTheDead(t *testing.T) {
	for _, retain := range []time.Duration{0, time.Hour} {
		bubble(t, func(t *testing.T) {
			d, err := memory.New(&memory.Options[int]{Retain: retain})
			must(t, err)
			t.Cleanup(func() { _ = d.Close() })
			other := open(t, d, session, nil)
			slid := false
			s := open(t, heldSlides{d, func() {
				slid = true
				time.Sleep(session.IdleGrace)
				_, err := other.Get(t.Context(), "k")
				wantErr(t, err, slidingttl.ErrNotFound)
			}}, session, nil)
			must(t, s.Insert(t.Context(), "k", 1))
			time.Sleep(100 * time.Microsecond)
			_, _ = s.Get(t.Context(), "k")
			_, err = other.Peek(t.Context(), "k")
			wantErr(t, err, slidingttl.ErrNotFound)
			if !slid {
				t.Error("a Get that found its touch due called no Slide")
			}
		})
	}
}

// TestLocalClockStepsBack: what a call has said is dead stays dead, if the clock steps back after it.
func TestLocalClockStepsBack(t *testing.T) {
	for _, p := range []slidingttl.Policy{session, {IdleGrace: time.Minute, MaxLifetime: time.Hour, Slack: time.Minute}} {
		var at atomic.Int64
		at.Store(1_700_000_000_000_000_000)
		now := func() time.Time { return time.Unix(0, at.Load()) }
		d, err := memory.New(&memory.Options[int]{Now: now, Retain: 24 * time.Hour})
		must(t, err)
		s := open(t, d, p, &slidingttl.Options[int]{Now: now})
		must(t, s.Insert(t.Context(), "k", 1))
		at.Add(int64(p.IdleGrace + p.Slack + time.Second))
		_, err = s.Get(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
		at.Add(-int64(p.IdleGrace) / 2)
		_, err = s.Peek(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
		at.Add(-int64(p.Slack))
		_, err = s.Get(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
		must(t, s.Insert(t.Context(), "k", 2))
		_, err = s.Get(t.Context(), "k")
		must(t, err)
		must(t, d.Close())
	}
}

// heldSlides is the memory driver, with a function that is called before each Slide.
type heldSlides struct {
	*memory.Driver[int]
	before func()
}

func (d heldSlides) Slide(ctx context.Context, key string, at *atomic.Int64, was, to driver.Instant) bool {
	d.before()
	return d.Driver.Slide(ctx, key, at, was, to)
}

// TestLocalPolicyByRecord: a record's own policy holds for a hit on such a store.
func TestLocalPolicyByRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, err := memory.New[int](nil)
		must(t, err)
		t.Cleanup(func() { _ = d.Close() })
		short := slidingttl.Policy{IdleGrace: session.IdleGrace, MaxLifetime: session.IdleGrace}
		lenient := open(t, d, session, nil)
		s := open(t, d, session, &slidingttl.Options[int]{PolicyOf: func(int) slidingttl.Policy { return short }})
		must(t, lenient.Insert(t.Context(), "k", 1))
		for range 2 {
			time.Sleep(session.IdleGrace / 2)
			_, err = lenient.Get(t.Context(), "k")
			must(t, err)
		}
		_, err = s.Get(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
	})
}

// stopped is the memory driver in a process that was stopped: until the coarse clock ticks again
// its bounds have passed. The sweeper has not run yet.
type stopped struct {
	*memory.Driver[int]
	length time.Duration
}

func (s stopped) Now() time.Time { return time.Now() }

func (s stopped) Bounds() (earliest, latest driver.Instant) {
	then := time.Now().Add(-s.length)
	return driver.Floor(then), driver.Ceil(then)
}

// TestStoppedProcess: bounds that have passed revive no dead record, if the process was stopped for
// less than a minute and half the idle grace.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	const idle, most = 3 * time.Minute, 9 * time.Minute
	for _, policy := range []slidingttl.Policy{
		{IdleGrace: idle, MaxLifetime: most},
		{IdleGrace: idle, MaxLifetime: most, Slack: time.Minute},
		{IdleGrace: most, MaxLifetime: most},
		{IdleGrace: idle, MaxLifetime: most, Promote: true},
		{IdleGrace: time.Minute, MaxLifetime: 2 * time.Minute},
	} {
		bubble(t, func(t *testing.T) {
			d, err := memory.New(&memory.Options[int]{Now: func() time.Time { return time.Time{} }})
			must(t, err)
			t.Cleanup(func() { _ = d.Close() })
			s := open(t, stopped{d, min(time.Minute, policy.IdleGrace/2) - time.Millisecond}, policy, nil)
			must(t, s.Insert(t.Context(), "k", 1))
			for dies := time.Now().Add(policy.MaxLifetime); ; {
				wait := min(policy.IdleGrace-time.Second, time.Until(dies))
				time.Sleep(wait)
				_, getErr := s.Get(t.Context(), "k")
				_, peekErr := s.Peek(t.Context(), "k")
				many, err := s.GetMulti(t.Context(), []string{"k"})
				must(t, err)
				if time.Now().Before(dies) {
					must(t, getErr)
					continue
				}
				wantErr(t, getErr, slidingttl.ErrNotFound)
				wantErr(t, peekErr, slidingttl.ErrNotFound)
				if len(many) != 0 {
					t.Errorf("GetMulti reads %v", many)
				}
				break
			}
		})
	}
}

// TestCloseWaitsForSlides: Close waits for a Get whose touch is under way, as for any call.
func TestCloseWaitsForSlides(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, err := memory.New[int](nil)
		must(t, err)
		t.Cleanup(func() { _ = d.Close() })
		s, err := slidingttl.New(heldSlides{d, func() { time.Sleep(time.Minute) }}, session, nil)
		must(t, err)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Second)
		go func() { _, _ = s.Get(t.Context(), "k") }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var left *slidingttl.DrainError
		if err := s.Close(ctx); !errors.As(err, &left) || left.Calls != 1 {
			t.Errorf("Close while a Get touches: %v", err)
		}
		time.Sleep(time.Hour)
	})
}

// A Get that was held up after it read the clock returns no value that was written after its record's
// death.
func TestLocalHitOfWhatNeverLived(t *testing.T) {
	eachHold(t, &memory.Options[int]{Retain: time.Hour}, func(t *testing.T, d *memory.Driver[int], _ *slidingttl.Store[int], get func(func()) (int, error)) {
		was := stored(t, d, "k")
		var late time.Time
		v, err := get(func() {
			now := instant(time.Now())
			time.Sleep(time.Second)
			if _, err := d.Replace(t.Context(), "k", 2, was.Meta, was.Life, now); err == nil {
				late = time.Now()
			}
		})
		if err == nil && v == 2 && instant(late) > was.ExpiresAt {
			t.Error("a value written after its record's death is read")
		}
	})
}
