package drivertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Diary is the value of a soak: the writes that made it, the one that began the life first.
type Diary struct {
	Writes []int64 `json:"writes"`
}

// Soak is a backend that several processes use while it is disturbed.
type Soak struct {
	// Open returns a driver over the backend, for one more process.
	Open func() driver.Driver[Diary]

	// IdleGrace is that of the records, whose cap is four times as long. They are to
	// live and die many times.
	IdleGrace time.Duration

	// Now is the clock of all processes, so that answers can be checked to the
	// millisecond. Nil: time.Now.
	Now func() time.Time

	// Advance moves the clock forward. It makes time pass twenty times faster. Nil:
	// time passes by itself.
	Advance func(time.Duration)

	// Disturb causes a fault that users of the backend must tolerate: a lost answer, or a busy
	// store. It is called every 10 ms, with 0, 1 and so on, unless no call was answered
	// meanwhile: a machine that is slow must get something done.
	Disturb func(n int)

	// Midway is called at half time, and returns the time in which answered writes may be
	// lost, as when a replica takes over. Nil: it is not called.
	Midway func() Span

	// Mend ends the faults that Disturb caused. Nil: nothing is to be ended.
	Mend func()

	// Straggler is how long after its answer was lost a call may still be executed.
	Straggler time.Duration
}

// Span is a time.
type Span struct{ Start, End time.Time }

const (
	soakProcesses = 3
	soakClients   = 4 // of each
	soakKeys      = 12
	soakSpeed     = 20 // of time, where it is advanced
	soakPause     = 10 * time.Millisecond
	soakTimeout   = 10 * time.Second // of a call
	soakRound     = 10 * time.Second
	soakExtra     = time.Minute // for a slow machine to read soakFound records
	soakFound     = 20
)

// RunSoak has several stores use a few records of one backend for a time, and compares
// their answers. The stores read, write and delete as if in several processes, half of the
// time under a policy without slack, and half with a slack of a quarter of the idle grace.
// Each round has its own backend, because comparing takes the square of its length.
func RunSoak(t *testing.T, d time.Duration, open func(t *testing.T) *Soak) {
	for name, quarters := range map[string]time.Duration{"exact": 0, "slack": 1} {
		t.Run(name, func(t *testing.T) {
			for left, n := d/2, 1; left > 0; left, n = left-soakRound, n+1 {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					s := open(t)
					s.run(t, min(left, soakRound), slidingttl.Policy{IdleGrace: s.IdleGrace, MaxLifetime: 4 * s.IdleGrace, Slack: quarters * s.IdleGrace / 4})
				})
			}
		})
	}
}

func (s *Soak) run(t *testing.T, d time.Duration, p slidingttl.Policy) {
	now := s.Now
	if now == nil {
		now = time.Now
	}
	r := &rules{policy: p, straggler: s.Straggler}
	log := &diaries{now: now}
	var stores []*slidingttl.Store[Diary]
	for range soakProcesses {
		own := s.Open()
		r.resolution = own.Resolution()
		store, err := slidingttl.New(own, p, &slidingttl.Options[Diary]{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close(t.Context()) }() // with touches of which the answer was lost
		stores = append(stores, store)
	}
	ctx, stop := context.WithTimeout(t.Context(), d+soakExtra)
	defer stop()
	var busy sync.WaitGroup
	for _, store := range stores {
		for range soakClients {
			busy.Go(func() { log.keep(ctx, store) })
		}
	}
	if s.Advance != nil {
		last := time.Now()
		busy.Go(func() {
			every(ctx, time.Millisecond, func() {
				passed := time.Since(last)
				last = last.Add(passed)
				s.Advance(passed * soakSpeed)
			})
		})
	}
	busy.Go(func() {
		n, seen := 0, int64(0)
		every(ctx, soakPause, func() {
			if answered := log.answered.Load(); answered > seen {
				s.Disturb(n)
				n, seen = n+1, answered
			}
		})
	})
	pause(ctx, d/2)
	if s.Midway != nil {
		r.lost = []Span{s.Midway()}
	}
	pause(ctx, d/2)
	for ctx.Err() == nil && log.found.Load() < soakFound {
		pause(ctx, soakPause)
	}
	stop()
	busy.Wait()
	if s.Mend != nil {
		s.Mend()
	}
	log.judge(t, r)
}

// every calls f until ctx ends, with a pause after each.
func every(ctx context.Context, d time.Duration, f func()) {
	for ctx.Err() == nil {
		f()
		pause(ctx, d)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
