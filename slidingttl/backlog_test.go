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
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// busy reads n records of the policy p once a minute, for length, and calls each once a second. It returns how many of
// them died.
func busy(t *testing.T, s *slidingttl.Store[int], under *hoard[int], n int, p slidingttl.Policy, length time.Duration, each func(second int)) (died int) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		plant(under, fmt.Sprint("busy ", i), 2*time.Minute+time.Duration(r.Int64N(int64(p.IdleGrace-2*time.Minute))))
	}
	for second := range int(length / time.Second) {
		each(second)
		for i := second % 60; i < n; i += 60 {
			if _, err := s.Get(t.Context(), fmt.Sprint("busy ", i)); err != nil {
				died++
				plant(under, fmt.Sprint("busy ", i), p.IdleGrace)
			}
		}
		time.Sleep(time.Second)
	}
	return died
}

// A record whose touch waits when the policy is made tighter is lowered within the new idle grace.
func TestBacklogBesideATighterPolicy(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		loose := slidingttl.Policy{IdleGrace: 240 * time.Hour, MaxLifetime: 2400 * time.Hour}
		s := open(t, d, loose, &slidingttl.Options[int]{Budget: 0.5})
		for i := range 3 { // the first spends what there is
			plant(under, fmt.Sprint(i), 200*time.Hour)
			read(t, s, fmt.Sprint(i))
		}
		must(t, s.SetPolicy(session))
		busy(t, s, under, 1200, session, time.Hour, func(second int) {
			if second%60 == 0 {
				read(t, s, "2")
			}
		})
		if left := time.Until(stored(t, under, "2").ExpiresAt.Time()); left > session.IdleGrace+2*time.Minute {
			t.Errorf("it has %v left an hour after the policy was made tighter", left)
		}
	})
}

// Records that are saved before their touch has its turn cost none.
func TestBacklogOfSavedRecords(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 0.1})
		for i := range 600 {
			plant(under, fmt.Sprint("busy ", i), session.IdleGrace)
		}
		busy(t, s, under, 600, session, time.Hour, func(second int) {
			for i := (second + 30) % 60; i < 600; i += 60 {
				must(t, s.Upsert(t.Context(), fmt.Sprint("busy ", i), 1))
			}
		})
		if n := d.count("touch"); n > 60 {
			t.Errorf("%d touches in an hour", n)
		}
	})
}

// Touches that wait while the clock is ahead for a moment are made in time nevertheless.
func TestBacklogBesideAClockAhead(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var ahead atomic.Int64
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 0.5, Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		var promised time.Time
		busy(t, s, under, 1200, session, 25*time.Minute, func(second int) {
			switch second {
			case 120:
				for i := range 20 {
					plant(under, fmt.Sprint(i), 10*time.Minute)
					read(t, s, fmt.Sprint(i))
				}
				promised = time.Now().Add(session.IdleGrace)
			case 180:
				ahead.Store(int64(time.Hour))
				time.Sleep(3 * time.Second)
				ahead.Store(0)
			}
		})
		for i := range 20 {
			if e := stored(t, under, fmt.Sprint(i)); e.ExpiresAt.Time().Before(promised.Add(-time.Millisecond)) {
				t.Fatalf("record %d dies %v early", i, promised.Sub(e.ExpiresAt.Time()))
			}
		}
	})
}

// After an outage, what failed in it goes neither before what is about to die, nor far beyond the budget.
func TestBacklogAfterAnOutage(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		down := failTouches(d, all)
		down(true)
		p := slidingttl.Policy{IdleGrace: 20 * time.Minute, MaxLifetime: 100 * time.Hour}
		s := open(t, d, p, &slidingttl.Options[int]{Budget: 1})
		for i := range 2000 {
			under.Plant(fmt.Sprint("foreign ", i), 1, driver.Life{})
			read(t, s, fmt.Sprint("foreign ", i))
		}
		time.Sleep(21 * time.Minute)
		for i := range 60 {
			plant(under, fmt.Sprint(i), 90*time.Second)
			read(t, s, fmt.Sprint(i))
		}
		down(false)
		before := d.count("touch")
		time.Sleep(95 * time.Second)
		for i := range 60 {
			if _, err := s.Peek(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
		}
		if n := d.count("touch") - before; n > 300 { // 2,060 in 20 minutes
			t.Errorf("%d touches in 95 s", n)
		}
	})
}

// Records whose adoption hangs or always fails take neither the workers, nor the budget, nor the queue of others.
func TestBacklogBesideWhatAlwaysFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options slidingttl.Options[int]
		broken  int
		fail    func(ctx context.Context) error
	}{
		"one worker":   {slidingttl.Options[int]{Budget: 2, Workers: 1, Touches: slidingttl.Background}, 10, hangs},
		"few workers":  {slidingttl.Options[int]{Budget: 1.5, Workers: 4, Touches: slidingttl.Background}, 60, hangs},
		"some refuse":  {slidingttl.Options[int]{Budget: 1.1}, 100, func(context.Context) error { return errDown }},
		"some hang":    {slidingttl.Options[int]{Budget: 1}, 30, hangs},
		"a full queue": {slidingttl.Options[int]{Budget: 0.8, Queue: 620}, 600, func(context.Context) error { return errDown }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				var once atomic.Bool
				d.before = func(ctx context.Context, op, key string) error {
					switch {
					case op == "touch" && strings.HasPrefix(key, "broken"):
						return c.fail(ctx)
					case op == "touch" && key == "once" && once.CompareAndSwap(false, true):
						return errDown
					}
					return nil
				}
				p := slidingttl.Policy{IdleGrace: 10 * time.Minute, MaxLifetime: 100 * time.Hour}
				s, err := slidingttl.New(d, p, &c.options)
				must(t, err)
				for i := range c.broken { // read once, and never again
					under.Plant(fmt.Sprint("broken ", i), 1, driver.Life{})
					read(t, s, fmt.Sprint("broken ", i))
				}
				died := busy(t, s, under, 580, p, time.Hour, func(second int) {
					if second == 20*60 {
						plant(under, "once", 5*time.Minute)
						read(t, s, "once")
					}
					if second == 28*60 {
						read(t, s, "once")
					}
				})
				if died > 0 {
					t.Errorf("%d of the others died", died)
				}
				if n := s.Stats(); float64(n.Touched+n.TouchFails) > 3600*max(1, c.options.Budget)*1.25 || n.Shed > 600 {
					t.Errorf("%+v", n)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_ = s.Close(ctx)
			})
		})
	}
}

// TouchEntry of an entry that has expired, with a Budget, waits for the store as long as for a touch, and gives the
// entry back.
func TestTouchExpiredEntryOfAHangingStore(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s, other := open(t, d, session, &slidingttl.Options[int]{Budget: 10}), open(t, under, session, nil)
		e, err := s.InsertEntry(t.Context(), "k", 1)
		must(t, err)
		time.Sleep(20 * time.Minute)
		read(t, other, "k")
		time.Sleep(20 * time.Minute)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "get" {
				return hangs(ctx)
			}
			return nil
		}
		began, before := time.Now(), s.Stats()
		got, err := s.TouchEntry(t.Context(), "k", e)
		if waited := time.Since(began); err != nil || got != e || waited > 200*time.Millisecond {
			t.Errorf("%+v, %v after %v", got, err, waited)
		}
		if st := s.Stats(); st.TouchFails != before.TouchFails+1 || st.Due != before.Due+1 || st.Hits != before.Hits {
			t.Errorf("%+v", st)
		}
	})
}

// After an outage touches that take a little longer than reads wait, with a Budget, go by death again: what failed or
// hung then says nothing of the records nearest to death. Nor does a shard that hangs.
func TestLateStoreAfterAnOutage(t *testing.T) {
	t.Parallel()
	refuses := func(context.Context) error { return errDown }
	for name, c := range map[string]struct {
		outage time.Duration
		fail   func(context.Context) error
		bad    int // records of a shard that hangs for good
	}{
		"refused":            {outage: 5 * time.Second, fail: refuses},
		"refused for long":   {outage: 2 * time.Minute, fail: refuses},
		"hung":               {outage: 5 * time.Second, fail: hangs},
		"hung for longer":    {outage: 20 * time.Second, fail: hangs},
		"hung for very long": {outage: 2 * time.Minute, fail: hangs},
		"a shard hangs":      {bad: 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				d.trip = 55 * time.Millisecond // each way
				var down atomic.Bool
				d.before = func(ctx context.Context, op, key string) error {
					switch {
					case op == "touch" && strings.HasPrefix(key, "bad"):
						return hangs(ctx)
					case op == "touch" && down.Load():
						return c.fail(ctx)
					}
					return nil
				}
				p := slidingttl.Policy{IdleGrace: 20 * time.Minute, MaxLifetime: 100 * time.Hour}
				s, err := slidingttl.New(d, p, &slidingttl.Options[int]{Budget: 40})
				must(t, err)
				readLater := func(kind string, n int, left time.Duration) {
					for i := range n {
						key := fmt.Sprint(kind, i)
						plant(under, key, left)
						go func() { _, _ = s.Get(t.Context(), key) }()
					}
				}
				down.Store(c.outage > 0)
				readLater("bad ", c.bad, c.outage+54*time.Second)
				readLater("near ", 50, c.outage+55*time.Second)
				time.Sleep(2 * time.Second)
				readLater("far ", 5000, 15*time.Minute)
				if c.outage > 0 {
					time.Sleep(c.outage - 2*time.Second)
				}
				down.Store(false)
				time.Sleep(56 * time.Second)
				died := 0
				for i := range 50 {
					if _, err := s.Peek(t.Context(), fmt.Sprint("near ", i)); err != nil {
						died++
					}
				}
				if died > 0 {
					t.Errorf("%d of 50 died 56 s after the outage: %+v", died, s.Stats())
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_ = s.Close(ctx)
			})
		})
	}
}

// Adoptions that are refused do not hide the others that have failed, which come in time.
func TestFailedOnceBehindRefusedAdoptions(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var once sync.Map
		d.before = func(_ context.Context, op, key string) error {
			if op != "touch" {
				return nil
			}
			if _, again := once.LoadOrStore(key, true); strings.HasPrefix(key, "refused") || strings.HasPrefix(key, "once") && !again {
				return errDown
			}
			return nil
		}
		p := slidingttl.Policy{IdleGrace: 10 * time.Minute, MaxLifetime: 100 * time.Hour}
		s, err := slidingttl.New(d, p, &slidingttl.Options[int]{Budget: 0.3, Workers: 4})
		must(t, err)
		n := 0
		died := busy(t, s, under, 190, p, time.Hour, func(second int) {
			if second%10 == 0 && second < 600 {
				under.Plant(fmt.Sprint("refused ", second), 1, driver.Life{})
				read(t, s, fmt.Sprint("refused ", second))
			}
			if second > 900 && second < 2700 && second%37 == 0 {
				plant(under, fmt.Sprint("once ", n), 5*time.Minute)
				read(t, s, fmt.Sprint("once ", n))
				n++
			}
		})
		for i := range n {
			if e, err := under.Get(t.Context(), fmt.Sprint("once ", i)); err != nil || e.ExpiresAt.Sub(e.CreatedAt) < time.Hour+6*time.Minute {
				died++
			}
		}
		if died > 0 {
			t.Errorf("%d records died", died)
		}
		_ = s.Close(t.Context())
	})
}

// The store refuses touches for five minutes, in which thousands of records die, or are deleted, that were read
// meanwhile. Then it is healthy again. The tries that find none do not keep back those that have half a minute left.
func TestDeadDoNotHoldTheBreakerOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		trip   time.Duration // each way
		dead   int
		budget float64
		gone   bool // deleted, and not yet dead by what was read
	}{
		{trip: 100 * time.Millisecond, dead: 2000, gone: true},
		{trip: 25 * time.Millisecond, dead: 20000},
		{trip: 100 * time.Millisecond, dead: 2000},
		{trip: 100 * time.Millisecond, dead: 2000, budget: 100},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				d.trip = c.trip
				var down atomic.Bool
				d.before = func(_ context.Context, op, _ string) error {
					if op == "touch" && down.Load() {
						return errDown
					}
					return nil
				}
				p := slidingttl.Policy{IdleGrace: 20 * time.Minute, MaxLifetime: 100 * time.Hour}
				s, err := slidingttl.New(d, p, &slidingttl.Options[int]{Budget: c.budget})
				must(t, err)
				readAll := func(kind string, n int, left time.Duration) {
					for i := range n {
						plant(under, fmt.Sprint(kind, i), left)
						go func() { _, _ = s.Get(t.Context(), fmt.Sprint(kind, i)) }()
					}
					time.Sleep(10 * time.Second)
				}
				down.Store(true)
				left := 4 * time.Minute
				if c.gone {
					left = 329500 * time.Millisecond // the others die at 5 min 30 s
				}
				readAll("dead ", c.dead, left)
				for i := range c.dead {
					if c.gone {
						must(t, under.Delete(t.Context(), fmt.Sprint("dead ", i)))
					}
				}
				readAll("ok ", 100, 5*time.Minute+20*time.Second) // 30 s after the outage
				time.Sleep(280 * time.Second)
				down.Store(false)
				before := s.Stats()
				time.Sleep(29 * time.Second)
				st, died := s.Stats(), 0
				time.Sleep(2 * time.Second)
				for i := range 100 {
					if _, err := s.Peek(t.Context(), fmt.Sprint("ok ", i)); err != nil {
						died++
					}
				}
				if died > 0 || st.BreakerOpen {
					t.Errorf("%d of 100 died, 29 s after the outage: breaker open %v, %d touched, %d failed, %d shed since it ended",
						died, st.BreakerOpen, st.Touched-before.Touched, st.TouchFails-before.TouchFails, st.Shed-before.Shed)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_ = s.Close(ctx)
				time.Sleep(time.Minute)
			})
		})
	}
}

// Nothing fails, and each trip takes a little more than half of TouchTimeout. What has waited reads its record first, and
// has as long for the touch.
func TestStoreOfHalfTheTimeoutLosesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		trip, timeout time.Duration // trip: each way
	}{
		{1300 * time.Millisecond, 0},
		{400 * time.Millisecond, time.Second},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				d.trip = c.trip
				p := slidingttl.Policy{IdleGrace: 20 * time.Minute, MaxLifetime: 100 * time.Hour}
				s, err := slidingttl.New(d, p, &slidingttl.Options[int]{TouchTimeout: c.timeout})
				must(t, err)
				const n = 1000
				for i := range n {
					plant(under, fmt.Sprint(i), 2*time.Minute)
					go func() { _, _ = s.Get(t.Context(), fmt.Sprint(i)) }()
					time.Sleep(5 * time.Millisecond)
				}
				time.Sleep(2 * time.Minute)
				died := 0
				for i := range n {
					if !stored(t, under, fmt.Sprint(i)).Alive(instant(time.Now())) {
						died++
					}
				}
				if st := s.Stats(); died > 0 || st.TouchFails > 0 {
					t.Errorf("%d of %d died: touched %d, failed %d, breaker open %v", died, n, st.Touched, st.TouchFails, st.BreakerOpen)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_ = s.Close(ctx)
				time.Sleep(time.Minute)
			})
		})
	}
}
