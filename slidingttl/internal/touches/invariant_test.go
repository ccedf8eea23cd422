package touches

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }
func (wallClock) Bounds() (earliest, latest driver.Instant) {
	return driver.Floor(time.Now()), driver.Ceil(time.Now())
}

// check returns an error unless each touch that has not ended stands in exactly one place.
func (t *Touches) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.halted {
		return nil
	}
	pending, ready, rests, dead := 0, 0, 0, 0
	var inFlight limits
	in := func(h *turns, n *touch) bool {
		i := n.places[h.place]
		return i < h.Len() && h.all[i].of == n
	}
	for key, s := range t.keys {
		if key != s.key || s.running == nil && len(s.pending) == 0 {
			return fmt.Errorf("slot %q of key %q is empty", s.key, key)
		}
		if n := s.running; n != nil {
			if n.state != running || n.of != s {
				return fmt.Errorf("what runs is in state %d", n.state)
			}
			inFlight.add(n, 1)
		}
		pending += len(s.pending)
		if n := len(slices.DeleteFunc(slices.Clone(s.pending), func(p *touch) bool { return p.urgent > 0 })); n > mostLives {
			return fmt.Errorf("%d touches of a key are pending", n)
		}
		for i, n := range s.pending {
			switch {
			case n.of != s:
				return errors.New("a touch is of another slot")
			case n.state == waiting && s.running == nil:
				return errors.New("a touch waits for none that runs")
			case n.state == queued && !(in(&t.ready, n) && in(&t.farthest, n) && t.ready.all[n.places[0]].key == n.turn()):
				return errors.New("a queued touch is not in its place")
			case n.state == resting && !(in(&t.resting, n) && in(&t.farthest, n)):
				return errors.New("a resting touch is not in its place")
			case n.state == rested && !(in(&t.rested, n) && in(&t.farthest, n) && t.rested.all[n.places[0]].key == n.turn()):
				return errors.New("a touch that has rested is not in its place")
			case n.state == passed && !(in(&t.passed, n) && in(&t.farthest, n) && t.passed.all[n.places[0]].key == -int64(n.dies())):
				return errors.New("a touch that has been passed is not in its place")
			case n.state >= running:
				return fmt.Errorf("a pending touch is in state %d", n.state)
			}
			if n.state > waiting && t.farthest.all[n.places[1]].key != n.far() {
				return errors.New("a touch is not in its place among those to be shed")
			}
			if n.state > waiting && !(in(&t.oldest, n) && t.oldest.all[n.places[2]].key == int64(n.number)) {
				return errors.New("a touch is not in its place among those that a Flush waits for")
			}
			if n.state == queued {
				ready++
			}
			if n.state == resting || n.state == rested {
				rests++
			}
			if n.state == passed {
				dead++
			}
			for _, other := range s.pending[:i] {
				if sameLife(n.Was, other.Was) {
					return errors.New("two pending touches of a life")
				}
			}
		}
	}
	if l := t.limits; inFlight.running != l.running || inFlight.reads != l.reads || inFlight.queued != l.queued || inFlight.late != l.late || inFlight.tries != l.tries {
		return fmt.Errorf("in flight are %+v, counted %+v", inFlight, l)
	}
	if pending != t.pending || ready != t.ready.Len() || rests != t.resting.Len()+t.rested.Len() || dead != t.passed.Len() || ready+rests+dead != t.farthest.Len() || t.oldest.Len() != t.farthest.Len() || ready != t.recent.Len() {
		return fmt.Errorf("%d pending, %d ready, %d resting, %d passed; counted %d, %d, %d, %d of %d",
			pending, ready, rests, dead, t.pending, t.ready.Len(), t.resting.Len()+t.rested.Len(), t.passed.Len(), t.farthest.Len())
	}
	return nil
}

// Each touch stands in exactly one place after every step, whatever accesses, stores, Flush and Close do.
func TestOnePlaceATouch(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			hourly := rules.New(policy.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, time.Millisecond, time.Second, true)
			bad := r.IntN(3)
			write := func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
				select {
				case <-time.After(rand.N([]time.Duration{time.Millisecond, 300 * time.Millisecond, 10 * time.Second}[bad])):
				case <-ctx.Done():
					return 0, ctx.Err()
				}
				switch rand.N(4 + 8*(2-bad)) {
				case 0:
					return 0, errors.New("store is down")
				case 1:
					return 0, driver.ErrNotFound
				case 2:
					return 0, &driver.ConflictError{Found: driver.Meta{Life: driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: life.ExpiresAt}, Version: was.Version + 1}}
				}
				return was.Version, nil
			}
			c := Config{
				Write: write, Changed: func(State) {}, Clock: wallClock{}, Tally: new(tally.Tally), Memo: NewMemo(8),
				Read: func(context.Context, string) (driver.Meta, *rules.Rules, error) {
					return driver.Meta{}, hourly, driver.ErrNotFound
				},
				Timeout: time.Second, Wait: 100 * time.Millisecond, MaxSkew: time.Second,
				Queue: 1 + r.IntN(6), Workers: r.IntN(3), Background: r.IntN(2) == 0,
			}
			if r.IntN(2) == 0 {
				c.Budget = 1
			}
			touches := New(c)
			var steps atomic.Int64
			began := driver.Floor(time.Now())
			Yield = func() {
				n := steps.Add(1)
				if err := touches.check(); err != nil {
					t.Errorf("seed %d, step %d: %v", seed, n, err)
				}
			}
			defer func() { Yield = nil }()
			var deletions sync.WaitGroup
			for range 40 {
				now := time.Now()
				created, before := began.Add(-time.Minute*time.Duration(r.IntN(2))), driver.Life{}
				if r.IntN(4) == 0 {
					if created = 0; r.IntN(2) == 0 {
						before = driver.Life{CreatedAt: began, ExpiresAt: began.Add(time.Minute)}
					}
				}
				m := driver.Meta{Life: driver.Life{CreatedAt: created, ExpiresAt: driver.Floor(now).Add(time.Duration(r.IntN(30)) * time.Second)}, Version: 1}
				if before != (driver.Life{}) {
					m.ExpiresAt = 0 // a save has wiped it
				}
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(8) == 0 {
					cancel()
				}
				urgent, both := r.IntN(5) == 0, r.IntN(5) == 0
				go func() {
					defer cancel()
					var a Access
					if both {
						touches.ReadTouch(ctx, fmt.Sprint(rand.N(5)), func(ctx context.Context) (Outcome, bool) {
							version, err := write(ctx, "", m, m.Life, 0)
							return Outcome{Was: m, Meta: driver.Meta{Life: m.Life, Version: version}}, err == nil
						})
					} else if touches.Due(&a, now, fmt.Sprint(rand.N(5)), m, hourly, before, 0) {
						touches.TouchOrQueue(ctx, &a, touches.Late(), urgent)
					}
				}()
				if r.IntN(10) == 0 {
					go func() { _ = touches.Flush(t.Context()) }()
				}
				if r.IntN(4) == 0 {
					key, gone := fmt.Sprint(r.IntN(5)), r.IntN(2) == 0
					deletions.Go(func() {
						touches.Carried(key)(m)
						touches.Deleted(t.Context(), key, touches.Deletes(key), gone, false)
					})
				}
				time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(3))*time.Second)
			defer cancel()
			calls := make(chan struct{})
			close(calls)
			deletions.Go(func() { // as Close gives up
				<-ctx.Done()
				for key := range 5 {
					touches.Deleted(t.Context(), fmt.Sprint(key), touches.Deletes(fmt.Sprint(key)), true, false)
				}
			})
			_, _, _, _ = touches.Close(ctx, calls, noCalls)
			synctest.Wait()
			if _, pending, _ := touches.Now(); touches.halted && pending != 0 {
				t.Errorf("seed %d: %d pending after Close", seed, pending)
			}
			_, _, _, _ = touches.Close(t.Context(), calls, noCalls)
			synctest.Wait()
			deletions.Wait()
			n := steps.Load()
			if n < 10 {
				t.Errorf("seed %d: %d steps", seed, n)
			}
			if time.Sleep(time.Hour); steps.Load() != n {
				t.Errorf("seed %d: a timer was left", seed)
			}
		})
		if t.Failed() {
			return
		}
	}
}
