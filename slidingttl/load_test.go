//go:build !race || night

// The race detector makes what follows eight times slower, and the tests beside it show it the same code with
// fewer records. At night it sees these too.

package slidingttl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A touch that failed once is tried again while thousands that have not failed wait, with a budget and
// without.
func TestRetryBesideAQueue(t *testing.T) {
	t.Parallel()
	for budget, waiting := range map[float64]int{0: 3000, 10: 700} { // more than a minute has time for
		bubble(t, func(t *testing.T) {
			d, under := newRemote[int](time.Millisecond)
			var tried atomic.Int32
			d.before = func(ctx context.Context, op, key string) error {
				if op == "touch" && key == "x" && tried.Add(1) == 1 {
					return errDown
				}
				if op == "touch" && budget == 0 {
					return sleep(ctx, 90*time.Millisecond)
				}
				return nil
			}
			s, err := slidingttl.New(d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Budget: budget, Workers: 4})
			must(t, err)
			plant(under, "x", time.Minute)
			read(t, s, "x")
			time.Sleep(900 * time.Millisecond) // it rests for 1 s
			for i := range waiting {
				plant(under, fmt.Sprint(i), 25*time.Minute)
				read(t, s, fmt.Sprint(i))
			}
			time.Sleep(time.Minute)
			if tried.Load() != 2 {
				t.Errorf("budget %v: tried %d times", budget, tried.Load())
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = s.Close(ctx)
		})
	}
}

// What was probed while the store failed goes first once it has recovered, for it is nearest to death.
func TestProbedComeFirst(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		set := failTouches(d, all)
		set(true)
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{Budget: 20})
		must(t, err)
		const near, far = 100, 3000
		for i := range near + far {
			left := 25 * time.Minute
			if i < near {
				left = 3*time.Minute + 30*time.Second
			}
			plant(under, fmt.Sprint(i), left)
			read(t, s, fmt.Sprint(i))
		}
		time.Sleep(3 * time.Minute)
		set(false)
		time.Sleep(time.Minute)
		dead := 0
		for i := range near {
			if _, err := s.Peek(t.Context(), fmt.Sprint(i)); err != nil {
				dead++
			}
		}
		if dead > 0 {
			t.Errorf("%d of those nearest to death died", dead)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
}

// What waits gets its share of the touches, however many reads make their own.
func TestRetriesBesideManyReaders(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var bad atomic.Bool
		const takes = 80 * time.Millisecond
		d.before = func(ctx context.Context, op, key string) error {
			if op != "touch" {
				return nil
			}
			if strings.HasPrefix(key, "bad") && bad.Load() {
				return errDown
			}
			return sleep(ctx, takes)
		}
		s := open(t, d, session, nil)
		const readers = 300
		for i := range readers {
			must(t, s.Insert(t.Context(), fmt.Sprint(i), i))
		}
		var done atomic.Bool
		var wg sync.WaitGroup
		for i := range readers {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * takes / readers) // apart
				for !done.Load() {
					time.Sleep(time.Millisecond)
					read(t, s, fmt.Sprint(i))
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		bad.Store(true)
		for i := range 4 { // too few to open the breaker
			key := fmt.Sprint("bad", i)
			plant(under, key, 20*time.Minute)
			read(t, s, key)
		}
		bad.Store(false)
		time.Sleep(1200 * time.Millisecond)
		for i := range 4 {
			key := fmt.Sprint("bad", i)
			if e := stored(t, under, key); e.ExpiresAt.Sub(instant(time.Now())) < 25*time.Minute {
				t.Errorf("the touch of %s, which failed once, was not tried again: %+v", key, s.Stats())
			}
		}
		done.Store(true)
		wg.Wait()
	})
}

// TestBurstOnSlowStore: on a store that is slow, where nothing fails, touches nearest to death go first, also after
// as many ran as may.
func TestBurstOnSlowStore(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		const burst, left = 3000, 30 * time.Second
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		d.before = func(_ context.Context, op, _ string) error {
			if op == "touch" {
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		}
		s, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 24 * time.Hour}, nil)
		must(t, err)
		end := time.Now().Add(20*time.Second + left)
		var load sync.WaitGroup
		load.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				key := fmt.Sprint("far", i)
				plant(under, key, 25*time.Minute)
				go s.Get(t.Context(), key)
				time.Sleep(time.Second / 600)
			}
		})
		time.Sleep(20 * time.Second)
		for i := range burst {
			key := fmt.Sprint("near", i)
			plant(under, key, left)
			go s.Get(t.Context(), key)
		}
		time.Sleep(left + time.Second)
		lost := 0
		for i := range burst {
			if _, err := s.Get(t.Context(), fmt.Sprint("near", i)); err != nil {
				lost++
			}
		}
		if lost > 0 {
			t.Errorf("%d of %d records died with touches under way that had time", lost, burst)
		}
		load.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = s.Close(ctx)
		time.Sleep(10 * time.Second)
	})
}

// The breaker opens and closes under load, however touches fail: no read waits long, every touch is
// accounted for, and every record lives as long as promised.
func TestNoTouchIsLostOverTheBreaker(t *testing.T) {
	t.Parallel()
	ways := map[string]func(ctx context.Context) error{
		"refused":  func(ctx context.Context) error { return errDown },
		"silent":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"half are": func(ctx context.Context) error { return [...]error{nil, errDown}[rand.N(2)] },
		"slow":     func(ctx context.Context) error { return sleep(ctx, 300*time.Millisecond) },
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				d.trip = 5 * time.Millisecond
				var bad atomic.Bool
				d.before = func(ctx context.Context, op, _ string) error {
					if op == "touch" && bad.Load() {
						return way(ctx)
					}
					return nil
				}
				var changes atomic.Int32
				s, err := slidingttl.New(d, session, &slidingttl.Options[int]{
					Observer: &slidingttl.Observer{Breaker: func(bool) { changes.Add(1) }},
				})
				must(t, err)
				const keys = 200
				for i := range keys {
					plant(under, fmt.Sprint(i), 5*time.Minute)
				}
				promised := make([]driver.Instant, keys)
				for i := range 3 * 20 * 50 {
					bad.Store(i >= 20*50 && i < 2*20*50)
					time.Sleep(20 * time.Millisecond)
					k := rand.N(keys)
					at := driver.Floor(time.Now())
					if took := read(t, s, fmt.Sprint(k)); took > 120*time.Millisecond {
						t.Fatalf("a read took %v", took)
					}
					promised[k] = max(promised[k], at.Add(session.IdleGrace))
				}
				must(t, s.Close(t.Context()))
				st := s.Stats()
				accounted(t, st)
				if n := changes.Load(); n < 2 && name != "slow" || n%2 != 0 || st.BreakerOpen || st.Late {
					t.Errorf("the breaker changed %d times, open: %v", n, st.BreakerOpen)
				}
				short := 0
				for k, p := range promised {
					if e := stored(t, under, fmt.Sprint(k)); e.ExpiresAt < p {
						short++
					}
				}
				if uint64(short) > st.TouchFails-st.Retried {
					t.Errorf("%d records fall short of what reads promised, %+v", short, st)
				}
			})
		})
	}
}

// After a burst that had to exceed the budget, the budget holds again.
func TestBudgetAfterABurst(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var over []bool
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 50, TouchTimeout: time.Second, Observer: &slidingttl.Observer{
			Budget: func(o bool) { over = append(over, o) },
		}})
		for i := range 2500 {
			plant(under, fmt.Sprint("burst", i), 8*time.Second)
			read(t, s, fmt.Sprint("burst", i))
		}
		time.Sleep(20 * time.Second)
		if n := s.Stats().Pending; n > 0 {
			t.Fatalf("%d of the burst wait", n)
		}
		before := s.Stats().Touched
		for i := range 3000 {
			key := fmt.Sprint("even", i)
			plant(under, key, 20*time.Minute)
			read(t, s, key)
			time.Sleep(10 * time.Millisecond)
		}
		if n := s.Stats().Touched - before; n > 1550 {
			t.Errorf("%d touches in 30 s of even load, with a budget of 50 a second", n)
		}
		synctest.Wait()
		if len(over) != 2 || !over[0] || over[1] {
			t.Errorf("Observer.Budget was told %v", over)
		}
	})
}

// Touches above the budget wait, and no record dies because of that. Less than one second in twenty
// exceeds the budget.
func TestBudget(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		const keys, budget, length = 1000, 3, 30 * 60
		policy := slidingttl.Policy{IdleGrace: 10 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: time.Minute, MaxSlack: 10 * time.Minute}
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		seconds := make(map[int64]int)
		d.after = func(op, _ string) {
			if op == "touch" {
				d.mu.Lock()
				seconds[time.Now().Unix()]++
				d.mu.Unlock()
			}
		}
		s := open(t, d, policy, &slidingttl.Options[int]{Budget: budget})
		zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, keys-1)
		last := make(map[string]time.Time)
		for range length * 10 {
			time.Sleep(100 * time.Millisecond)
			key := fmt.Sprint(zipf.Uint64())
			_, err := s.Get(t.Context(), key)
			if err != nil {
				if time.Since(last[key]) < policy.IdleGrace && !last[key].IsZero() {
					t.Fatalf("a record died %v after its last read: %v", time.Since(last[key]), err)
				}
				_ = under.Delete(t.Context(), key)
				must(t, s.Insert(t.Context(), key, 1))
			}
			last[key] = time.Now()
		}
		over, touches := 0, 0
		for _, n := range seconds {
			touches += n
			if n > budget+1 { // a burst of one may fall into the same second
				over++
			}
		}
		st := s.Stats()
		if over > length/20 || st.Shed > 0 || st.Broken > 0 {
			t.Errorf("%d of %d seconds over the budget, %+v", over, length, st)
		}
		if touches < length*budget/2 {
			t.Errorf("%d touches: the budget was not needed", touches)
		}
	})
}

// Only touches whose record would die go beyond the budget: not all others while a shard is down whose records have died.
func TestBudgetBesideADeadShard(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var well atomic.Int64
		loseShard(d)
		d.after = func(op, key string) {
			if op == "touch" && !strings.HasPrefix(key, "lost") {
				well.Add(1)
			}
		}
		policy := slidingttl.Policy{IdleGrace: 4 * time.Hour, MaxLifetime: 1000 * time.Hour}
		s := open(t, d, policy, &slidingttl.Options[int]{Budget: 10})
		for i := range 100 {
			plant(under, fmt.Sprint("lost ", i), time.Minute)
			go func() { _ = s.Keep(t.Context(), fmt.Sprint("lost ", i)) }()
		}
		for i := range 50 * 300 {
			if i == 50*120 {
				well.Store(0)
			}
			plant(under, fmt.Sprint(i), 3*time.Hour)
			read(t, s, fmt.Sprint(i))
			time.Sleep(20 * time.Millisecond)
		}
		if n := well.Load(); n > 180*12 {
			t.Errorf("%d touches in three minutes", n)
		}
	})
}

// Under a budget that never suffices each promise is kept, with few more touches than that takes: of records whose
// touches fail at first, of those touched by an entry read long ago, of those to be lowered, and of those to be adopted.
func TestPromisesUnderALastingBacklog(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		bubble(t, func(t *testing.T) {
			const keys, budget, length = 400, 0.5, 30 * time.Minute
			const skew = time.Second
			policy := slidingttl.Policy{IdleGrace: 10 * time.Minute, MaxLifetime: 12 * time.Hour}
			d, under := newRemote[int](time.Millisecond)
			r := rand.New(rand.NewPCG(seed, 1))
			failed := make(map[string]bool) // the key's last touch
			var touches atomic.Int32
			d.before = func(_ context.Context, op, key string) error {
				d.mu.Lock()
				defer d.mu.Unlock()
				if op != "touch" {
					return nil
				}
				touches.Add(1)
				if failed[key] = !strings.HasPrefix(key, "old") && len(key)%2 == 0 && !failed[key]; failed[key] {
					return errDown
				}
				return nil
			}
			kinds := []string{"live", "old", "far", "foreign"}
			type record struct {
				key         string
				first, last time.Time
			}
			records := make([]*record, keys)
			entries := make(map[string]slidingttl.Entry[int])
			s := open(t, d, policy, &slidingttl.Options[int]{Budget: budget, MaxSkew: skew})
			for i := range records {
				kind := kinds[i%len(kinds)]
				records[i] = &record{key: fmt.Sprint(kind, " ", i)}
				switch kind {
				case "far":
					plant(under, records[i].key, 10*time.Hour)
				case "foreign":
					under.Plant(records[i].key, 1, driver.Life{})
				default:
					plant(under, records[i].key, time.Minute+time.Duration(r.Int64N(int64(9*time.Minute))))
				}
			}
			end := time.Now().Add(length)
			lost, late := make(map[string]int), make(map[string]int)
			for ; time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				n := records[r.IntN(keys)]
				kind, _, _ := strings.Cut(n.key, " ")
				m, err := under.Get(t.Context(), n.key)
				if err == nil && !n.first.IsZero() && time.Since(n.first) > policy.IdleGrace &&
					(m.CreatedAt == 0 || time.Until(m.ExpiresAt.Time()) > policy.IdleGrace+2*skew) {
					late[kind]++
					n.first = time.Now()
				}
				if err == nil && !m.Alive(instant(time.Now())) {
					err = slidingttl.ErrNotFound
				}
				if err != nil {
					if !n.last.IsZero() && time.Since(n.last) < policy.IdleGrace {
						lost[kind]++
					}
					plant(under, n.key, policy.IdleGrace)
					delete(entries, n.key)
				}
				if kind == "old" {
					if _, ok := entries[n.key]; !ok {
						entries[n.key], err = s.Peek(t.Context(), n.key)
						must(t, err)
					}
					_, err = s.TouchEntry(t.Context(), n.key, entries[n.key])
				} else {
					_, err = s.Get(t.Context(), n.key)
				}
				must(t, err)
				if n.last = time.Now(); n.first.IsZero() {
					n.first = n.last
				}
			}
			if n, most := touches.Load(), keys*length.Seconds()/policy.IdleGrace.Seconds()*1.8; float64(n) > most { // many fail once
				t.Errorf("%d touches, want at most %.0f", n, most)
			}
			if len(lost)+len(late) > 0 {
				t.Errorf("seed %d: died too early: %v; not lowered or adopted in the idle grace: %v", seed, lost, late)
			}
		})
	}
}
