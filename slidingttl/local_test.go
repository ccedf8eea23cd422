package slidingttl_test

import (
	"context"
	"errors"
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

			if n := s.Stats().Hits; n != 2000 {
				t.Errorf("%d hits counted of 2000", n)
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

// TestLocalHitOfASuccessor: a Get that was held up after it read the clock, until its record had
// died and had a successor, takes nothing off the successor's life.
func TestLocalHitOfASuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, err := memory.New[int](nil)
		must(t, err)
		t.Cleanup(func() { _ = d.Close() })
		other := open(t, d, session, nil)
		calls := -1
		s := open(t, d, session, &slidingttl.Options[int]{MaxSkew: time.Millisecond, Now: func() time.Time {
			now := time.Now()
			if calls++; calls == 2 { // the first asked for its bounds
				time.Sleep(time.Second)
				must(t, other.Insert(t.Context(), "k", 2))
				time.Sleep(2 * time.Millisecond)
			}
			return now
		}})
		must(t, other.Insert(t.Context(), "k", 1))
		time.Sleep(session.IdleGrace - 500*time.Millisecond)
		calls = 0
		v, err := s.Get(t.Context(), "k")
		must(t, err)
		if e := stored(t, d, "k"); v != 2 || e.ExpiresAt.Sub(e.CreatedAt) < session.IdleGrace {
			t.Errorf("read %d; the successor lives for %v", v, e.ExpiresAt.Sub(e.CreatedAt))
		}
	})
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
