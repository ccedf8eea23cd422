package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// onBoth runs f on a remote store and on the memory driver, whose upserts take a shorter path.
func onBoth(t *testing.T, f func(t *testing.T, d driver.Driver[int])) {
	t.Helper()
	t.Run("remote", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			d, _ := newRemote[int](time.Millisecond)
			f(t, d)
		})
	})
	t.Run("memory", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			d, err := memory.New[int](nil)
			must(t, err)
			defer d.Close()
			f(t, d)
		})
	})
}

// Promise 7: an overwrite under the policy that the record has shortens nothing.
func TestUpsertOfTheSamePolicyNeverShortens(t *testing.T) {
	t.Run("promote", func(t *testing.T) {
		p := slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour, Promote: true}
		onBoth(t, func(t *testing.T, d driver.Driver[int]) {
			s := open(t, d, p, &slidingttl.Options[int]{PolicyOf: func(int) slidingttl.Policy { return p }})
			must(t, s.Insert(t.Context(), "k", 1))
			time.Sleep(time.Second)
			_, err := s.Get(t.Context(), "k")
			must(t, err)
			promised := stored(t, d, "k").ExpiresAt
			must(t, s.Upsert(t.Context(), "k", 2))
			if e := stored(t, d, "k"); e.ExpiresAt != promised {
				t.Errorf("an upsert moved the expiry by %v", e.ExpiresAt.Sub(promised))
			}
		})
	})
	t.Run("slow clock", func(t *testing.T) {
		onBoth(t, func(t *testing.T, d driver.Driver[int]) {
			same := func(int) slidingttl.Policy { return session }
			behind := func() time.Time { return time.Now().Add(-20 * time.Second) }
			a := open(t, d, session, &slidingttl.Options[int]{PolicyOf: same})
			b := open(t, d, session, &slidingttl.Options[int]{PolicyOf: same, Now: behind})
			must(t, a.Insert(t.Context(), "k", 1))
			promised := stored(t, d, "k").ExpiresAt
			must(t, b.Upsert(t.Context(), "k", 2))
			if e := stored(t, d, "k"); e.ExpiresAt < promised {
				t.Errorf("an upsert by a slow clock took %v off", promised.Sub(e.ExpiresAt))
			}
		})
	})
}

var (
	loose30d = slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour}
	tight1d  = slidingttl.Policy{IdleGrace: 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour}
)

// Promise 7: a tighter idle grace applies on the next access.
func TestTighterIdleGraceAppliesOnNextAccess(t *testing.T) {
	for name, access := range map[string]func(context.Context, *slidingttl.Store[int]) error{
		"Get":   func(ctx context.Context, s *slidingttl.Store[int]) error { _, err := s.Get(ctx, "k"); return err },
		"Touch": func(ctx context.Context, s *slidingttl.Store[int]) error { _, err := s.Touch(ctx, "k"); return err },
		"Keep":  func(ctx context.Context, s *slidingttl.Store[int]) error { return s.Keep(ctx, "k") },
		"Update": func(ctx context.Context, s *slidingttl.Store[int]) error {
			_, err := s.Update(ctx, "k", func(v int) (int, error) { return v + 1, nil })
			return err
		},
		"GetMulti": func(ctx context.Context, s *slidingttl.Store[int]) error {
			_, err := s.GetMulti(ctx, []string{"k"})
			return err
		},
		"TouchEntry": func(ctx context.Context, s *slidingttl.Store[int]) error {
			e, err := s.Peek(ctx, "k")
			if err == nil {
				_, err = s.TouchEntry(ctx, "k", e)
			}
			return err
		},
		// A driver without a way of its own hands back what an upsert overwrites by a
		// conflict, which lowers nothing, so the reader comes first.
		"Upsert": func(ctx context.Context, s *slidingttl.Store[int]) error {
			if err := s.Upsert(ctx, "k", 2); err != nil {
				return err
			}
			_, err := s.Get(ctx, "k")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, d driver.Driver[int]) {
				was := open(t, d, loose30d, nil)
				is := open(t, d, tight1d, nil)
				must(t, was.Insert(t.Context(), "k", 1))
				time.Sleep(time.Hour)
				must(t, access(t.Context(), is))
				now := instant(time.Now())
				e := stored(t, d, "k")
				if most := now.Add(tight1d.IdleGrace + maxSkew + 2*time.Millisecond); e.ExpiresAt > most {
					t.Errorf("lives for %v more, want a day", e.ExpiresAt.Sub(now))
				}
				if least := now.Add(tight1d.IdleGrace); e.ExpiresAt < least {
					t.Errorf("lives for %v only", e.ExpiresAt.Sub(now))
				}
			})
		})
	}
	t.Run("Upsert alone", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			d, err := memory.New[int](nil) // its upsert reads and writes at once
			must(t, err)
			defer d.Close()
			must(t, open(t, driver.Driver[int](d), loose30d, nil).Insert(t.Context(), "k", 1))
			time.Sleep(time.Hour)
			must(t, open(t, driver.Driver[int](d), tight1d, nil).Upsert(t.Context(), "k", 2))
			if e := stored(t, driver.Driver[int](d), "k"); e.ExpiresAt > instant(time.Now()).Add(tight1d.IdleGrace+maxSkew+2*time.Millisecond) {
				t.Errorf("lives for %v more, want a day", e.ExpiresAt.Sub(instant(time.Now())))
			}
		})
	})
}

// Promise 7: while two policies run side by side a process lowers a key's expiry at
// most once per eighth of what it stores.
func TestTighteningIsDamped(t *testing.T) {
	onBoth(t, func(t *testing.T, d driver.Driver[int]) {
		counted := over(d)
		was := open(t, counted, withSlack(loose30d, 3*24*time.Hour), nil)
		is := open(t, counted, withSlack(tight1d, 144*time.Minute), nil)
		must(t, was.Insert(t.Context(), "k", 1))
		const reads = 2 * 24 * 60
		for range reads / 2 {
			for _, s := range []*slidingttl.Store[int]{was, is} {
				time.Sleep(time.Minute)
				_, err := s.Get(t.Context(), "k")
				must(t, err)
			}
		}
		lowered := 0
		var last time.Time
		for _, l := range counted.lives {
			if l.now.ExpiresAt >= l.was.ExpiresAt || l.op != "touch" {
				continue
			}
			if lowered++; lowered > 1 && l.at.Sub(last) < (tight1d.IdleGrace+144*time.Minute)/8 {
				t.Fatalf("lowered again after %v", l.at.Sub(last))
			}
			last = l.at
		}
		if lowered == 0 {
			t.Error("the tighter policy never applied")
		}
		if n := counted.count("touch"); n > reads*6/100 {
			t.Errorf("%d touches in %d reads", n, reads)
		}
	})
}

// Promise 7: a touch that lost its race against a looser value's write leaves that
// alone, though it came to lower an expiry.
func TestTighteningLowersNoConflictsRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		was, is := open(t, under, loose30d, nil), open(t, d, tight1d, nil)
		must(t, was.Insert(t.Context(), "k", 1))
		time.Sleep(time.Hour)
		landed := false
		raise := once("touch", func() {
			_, err := was.Get(t.Context(), "k")
			must(t, err)
			landed = true
		})
		d.before = func(_ context.Context, op, _ string) error { raise(op); return nil }
		_, err := is.Get(t.Context(), "k")
		must(t, err)
		if !landed {
			t.Fatal("a tighter idle grace brought no touch")
		}
		if e := stored(t, under, "k"); e.ExpiresAt < instant(time.Now()).Add(loose30d.IdleGrace) {
			t.Errorf("what the conflict handed back was lowered to %v", e.ExpiresAt.Sub(instant(time.Now())))
		}
	})
}

// Promise 7: nor does a touch that waited for that one lower it, before it has read it.
func TestPendingTouchLowersNoConflictsRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		was, is := open(t, under, loose30d, nil), open(t, d, tight1d, &slidingttl.Options[int]{Touches: slidingttl.Background})
		must(t, was.Insert(t.Context(), "k", 1))
		time.Sleep(time.Hour)
		get := func() {
			_, err := is.Get(t.Context(), "k")
			must(t, err)
		}
		var mu sync.Mutex // guards down and ops
		down := true
		var ops []string
		wait := once("get", func() {
			go get()
			time.Sleep(50 * time.Millisecond)
		})
		raise := once("touch", func() { must(t, was.Upsert(t.Context(), "k", 2)) })
		d.before = func(_ context.Context, op, _ string) error {
			mu.Lock()
			counts := !down
			if counts {
				ops = append(ops, op)
			}
			fails := down && op == "touch"
			down = down && !fails
			mu.Unlock()
			switch {
			case fails:
				return errDown
			case counts:
				wait(op)
				raise(op)
			}
			return nil
		}
		get()
		time.Sleep(10 * time.Second) // the touch that failed reads again, and another read comes meanwhile
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"get", "get", "touch", "get", "touch"}; !slices.Equal(ops, want) {
			t.Errorf("calls %v, want %v", ops, want)
		}
	})
}

// clocked has its server's time, to within a round trip.
type clocked[T any] struct {
	driver.Driver[T]
	off time.Duration
}

func (c clocked[T]) Now() time.Time { return time.Now().Add(c.off) }

func (c clocked[T]) Bounds() (earliest, latest driver.Instant) {
	return driver.Floor(c.Now()), driver.Ceil(c.Now())
}

// Promise 3: of two processes that have learned the server's time by slow answers, the
// one that is behind does not take the other's touches for those of a looser policy.
func TestServersClockIsKnownToARoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		ahead := open[int](t, clocked[int]{d, 200 * time.Millisecond}, session, nil)
		behind := open[int](t, clocked[int]{d, -200 * time.Millisecond}, session, nil)
		must(t, ahead.Insert(t.Context(), "k", 1))
		time.Sleep(time.Second)
		_, err := ahead.Get(t.Context(), "k")
		must(t, err)
		promised := stored(t, d, "k").ExpiresAt
		_, err = behind.Get(t.Context(), "k")
		must(t, err)
		if e := stored(t, d, "k"); e.ExpiresAt < promised {
			t.Errorf("a read by a clock that is behind took %v off", promised.Sub(e.ExpiresAt))
		}
	})
}

// Promise 7: an expiry is brought down by one write at a time: while an Update that does
// is on its way no touch is sent after it.
func TestOneWriteAtATimeBringsAnExpiryDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, loose30d, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		must(t, s.SetPolicy(tight1d))
		d.trip = 10 * time.Millisecond
		var updating sync.WaitGroup
		updating.Go(func() {
			_, err := s.Update(t.Context(), "k", func(v int) (int, error) { return v + 1, nil })
			must(t, err)
		})
		time.Sleep(5 * time.Millisecond)
		_, err := s.Touch(t.Context(), "k")
		must(t, err)
		updating.Wait()
		if n := d.count("touch"); n != 0 {
			t.Errorf("%d touches sent beside the update", n)
		}
		if left := stored(t, under, "k").ExpiresAt.Sub(instant(time.Now())); left > tight1d.IdleGrace+maxSkew {
			t.Errorf("lives for %v more, want %v", left, tight1d.IdleGrace)
		}

		// A write that is sure not to have landed leaves it to the next.
		must(t, s.SetPolicy(slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 90 * 24 * time.Hour}))
		time.Sleep(4 * time.Hour) // more than an eighth of the day
		d.before = func(_ context.Context, op, _ string) error {
			if op == "replace" {
				return errDown
			}
			return nil
		}
		_, err = s.Update(t.Context(), "k", func(v int) (int, error) { return v + 1, nil })
		wantErr(t, err, errDown)
		_, err = s.Touch(t.Context(), "k")
		must(t, err)
		if left := stored(t, under, "k").ExpiresAt.Sub(instant(time.Now())); left > time.Hour+maxSkew {
			t.Errorf("lives for %v more, want an hour", left)
		}
	})
}

// Promise 7: a touch that landed before another process moved the expiry beyond the
// policy does not serve the read that finds it there, though its answer comes after.
func TestTighteningIsNotServedByAnEarlierTouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		is, was := open(t, d, tight1d, nil), open(t, under, loose30d, nil)
		must(t, is.Insert(t.Context(), "k", 1))
		time.Sleep(time.Hour)
		slow := once("touch", func() { time.Sleep(3 * time.Second) })
		d.after = func(op, _ string) { slow(op) }
		first := make(chan error, 1)
		go func() { _, err := is.Get(t.Context(), "k"); first <- err }()
		time.Sleep(time.Second)
		_, err := was.Get(t.Context(), "k")
		must(t, err)
		_, err = is.Touch(t.Context(), "k")
		must(t, err)
		must(t, <-first)
		if left := stored(t, under, "k").ExpiresAt.Sub(instant(time.Now())); left > tight1d.IdleGrace+maxSkew {
			t.Errorf("lives for %v more, want %v", left, tight1d.IdleGrace)
		}
	})
}

// Promise 7: while the answer of a write that lowered the expiry is under way, no other lowers it,
// though another process has moved it forward again.
func TestNoLoweringBeforeTheAnswerOfTheLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		tight := slidingttl.Policy{IdleGrace: 8 * time.Second, MaxLifetime: time.Hour} // once a second at most
		loose := slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}
		skew := &slidingttl.Options[int]{MaxSkew: time.Millisecond}
		is, was := open(t, d, tight, skew), open(t, under, loose, skew)
		must(t, was.Insert(t.Context(), "k", 1))
		_, err := is.Peek(t.Context(), "k")
		must(t, err)
		slow := once("replace", func() { time.Sleep(3 * time.Second) })
		d.after = func(op, _ string) { slow(op) }
		upserted := make(chan error, 1)
		go func() { upserted <- is.Upsert(t.Context(), "k", 2) }()
		time.Sleep(2 * time.Second)
		if left := stored(t, under, "k").ExpiresAt.Sub(instant(time.Now())); left > 9*time.Second {
			t.Fatalf("the upsert left %v", left)
		}
		_, err = was.Get(t.Context(), "k")
		must(t, err)
		_, err = is.Touch(t.Context(), "k")
		must(t, err)
		if left := stored(t, under, "k").ExpiresAt.Sub(instant(time.Now())); left < 9*time.Second {
			t.Errorf("lowered again before the answer, to %v", left)
		}
		must(t, <-upserted)
	})
}

// Promise 7: while a write that is to lower the expiry is under way, for minutes, no other lowers it; what waits for it
// does so once it is refused.
func TestLoweringBehindOneThatIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		tight := slidingttl.Policy{IdleGrace: 8 * time.Minute, MaxLifetime: 10 * time.Hour}
		loose := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 10 * time.Hour}
		is, was := open(t, d, tight, nil), open(t, under, loose, nil)
		must(t, was.Insert(t.Context(), "k", 1))
		_, err := is.Peek(t.Context(), "k")
		must(t, err)
		d.before = func(_ context.Context, op, _ string) error {
			if op == "replace" {
				time.Sleep(3 * time.Minute)
				return errDown
			}
			return nil
		}
		upserted := make(chan error, 1)
		go func() { upserted <- is.Upsert(t.Context(), "k", 2) }()
		time.Sleep(178 * time.Second)
		read(t, is, "k")
		if left := stored(t, under, "k").ExpiresAt.Sub(instant(time.Now())); left < 55*time.Minute {
			t.Errorf("lowered beside the upsert, to %v", left)
		}
		wantErr(t, <-upserted, errDown)
		time.Sleep(time.Second)
		if left := stored(t, under, "k").ExpiresAt.Sub(instant(time.Now())); left > 9*time.Minute {
			t.Errorf("what waited for the upsert left %v", left)
		}
	})
}

// Promise 7: a queued touch that is to bring the expiry down does so although an access
// that read the record before joins it.
func TestTighteningOutlastsAMerge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		is := open(t, d, tight1d, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 1})
		was := open(t, under, loose30d, nil)
		must(t, is.Insert(t.Context(), "busy", 0))
		must(t, is.Insert(t.Context(), "k", 1))
		before, err := is.Peek(t.Context(), "k")
		must(t, err)
		time.Sleep(time.Hour)
		_, err = was.Get(t.Context(), "k")
		must(t, err)
		slow := once("touch", func() { time.Sleep(time.Second) })
		d.after = func(op, _ string) { slow(op) }
		_, err = is.Get(t.Context(), "busy") // keeps the worker
		must(t, err)
		time.Sleep(time.Second / 2)
		_, err = is.Get(t.Context(), "k")
		must(t, err)
		_, err = is.TouchEntry(t.Context(), "k", before)
		must(t, err)
		must(t, is.Close(t.Context()))
		if left := stored(t, under, "k").ExpiresAt.Sub(instant(time.Now())); left > tight1d.IdleGrace+maxSkew {
			t.Errorf("lives for %v more, want %v", left, tight1d.IdleGrace)
		}
	})
}

// Promise 7: an Upsert that came to lower an expiry does not lower that of a record which a conflict
// handed back.
func TestUpsertLowersNoConflictsRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		was, is := open(t, under, loose30d, nil), open(t, d, loose30d, nil)
		must(t, is.Insert(t.Context(), "k", 1))
		must(t, is.SetPolicy(tight1d))
		time.Sleep(time.Hour)
		write := once("replace", func() { must(t, was.Upsert(t.Context(), "k", 2)) })
		d.before = func(_ context.Context, op, _ string) error { write(op); return nil }
		must(t, is.Upsert(t.Context(), "k", 3))
		for _, s := range d.lives {
			if s.op == "replace" && s.now.ExpiresAt < s.was.ExpiresAt {
				t.Errorf("a replace lowers what a conflict handed back by %v", s.was.ExpiresAt.Sub(s.now.ExpiresAt))
			}
		}
	})
}

// Keep of a remembered key lowers an expiry that lies beyond a policy made tighter.
func TestKeepLowersARememberedExpiry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, loose30d, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		must(t, s.SetPolicy(tight1d))
		must(t, s.Keep(t.Context(), "k"))
		if e := stored(t, under, "k"); e.ExpiresAt > instant(time.Now().Add(tight1d.IdleGrace+tight1d.Slack+2*time.Minute)) {
			t.Errorf("it still lives for %v", e.ExpiresAt.Sub(instant(time.Now())))
		}
	})
}

// A touch goes by the policy of the moment at which it is sent.
func TestQueuedTouchGoesByTheNewPolicy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		release := make(chan bool)
		d.before = func(_ context.Context, op, key string) error {
			if op == "touch" && key == "first" {
				<-release
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 1})
		for _, key := range []string{"first", "second"} {
			plant(under, key, time.Minute)
			read(t, s, key)
			synctest.Wait()
		}
		tight := session
		tight.IdleGrace = 2 * time.Minute
		must(t, s.SetPolicy(tight))
		close(release)
		time.Sleep(time.Second)
		if left := stored(t, under, "second").ExpiresAt.Sub(instant(time.Now())); left > tight.IdleGrace {
			t.Errorf("%v are left", left)
		}
	})
}

// A write that lost its race lowers nothing, and keeps nobody else from it while it is under way.
func TestLostRaceLeavesTheLowering(t *testing.T) {
	for name, write := range map[string]func(s *slidingttl.Store[int]) error{
		"upsert": func(s *slidingttl.Store[int]) error { return s.Upsert(context.Background(), "a", 3) },
		"update": func(s *slidingttl.Store[int]) error {
			_, err := s.Update(context.Background(), "a", func(int) (int, error) { return 3, nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s := open(t, d, session, nil)
				created := instant(time.Now())
				far := driver.Life{CreatedAt: created, ExpiresAt: created.Add(session.MaxLifetime)}
				under.Plant("a", 1, far)
				_, err := s.Peek(t.Context(), "a")
				must(t, err)
				d.before = func(_ context.Context, op, _ string) error {
					if op == fakestore.Replace && d.count(op) == 1 {
						_, err := under.Touch(context.Background(), "a", stored(t, under, "a").Meta, driver.Life{CreatedAt: created, ExpiresAt: created.Add(session.IdleGrace)}, created)
						must(t, err)
					}
					return nil
				}
				d.after = func(op, _ string) {
					if op == fakestore.Replace && d.count(op) == 2 {
						d.after = nil
						under.Plant("a", 4, far)
						_, err := s.Get(context.Background(), "a")
						must(t, err)
						if left := stored(t, under, "a").ExpiresAt.Sub(instant(time.Now())); left > session.IdleGrace+2*time.Minute {
							t.Errorf("%v are left", left)
						}
					}
				}
				must(t, write(s))
				if n := d.count(fakestore.Replace); n != 2 {
					t.Errorf("%d writes", n)
				}
			})
		})
	}
}

// A save that finds a record past the cap of its own value's policy begins a new life, lowers nothing, and
// keeps nobody else from it either.
func TestNewLifeLeavesTheLowering(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{PolicyOf: func(v int) slidingttl.Policy {
			if v == 3 {
				return slidingttl.Policy{IdleGrace: time.Second, MaxLifetime: time.Minute}
			}
			return session
		}})
		created := instant(time.Now())
		far := driver.Life{CreatedAt: created, ExpiresAt: created.Add(session.MaxLifetime)}
		under.Plant("a", 1, far)
		_, err := s.Peek(t.Context(), "a")
		must(t, err)
		d.before = func(_ context.Context, op, _ string) error {
			if op == fakestore.Replace && d.count(op) == 1 {
				under.Plant("a", 1, far)
				time.Sleep(2 * time.Minute)
			}
			return nil
		}
		d.after = func(op, _ string) {
			if op == fakestore.Replace && d.count(op) == 2 {
				d.after = nil
				under.Plant("a", 4, far)
				_, err := s.Get(context.Background(), "a")
				must(t, err)
				if left := stored(t, under, "a").ExpiresAt.Sub(instant(time.Now())); left > session.IdleGrace+2*time.Minute {
					t.Errorf("%v are left", left)
				}
			}
		}
		must(t, s.Upsert(t.Context(), "a", 3))
		if n := d.count(fakestore.Replace); n != 2 {
			t.Errorf("%d writes", n)
		}
	})
}

// TouchEntry of an entry that was read under a wider policy goes by what this store has written since.
func TestTouchEntryReadBeforeATighterPolicy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		loose := slidingttl.Policy{IdleGrace: 5 * time.Minute, MaxLifetime: 100 * time.Hour}
		s := open(t, d, loose, &slidingttl.Options[int]{MaxSkew: time.Second})
		must(t, s.Insert(t.Context(), "k", 1))
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		tight := loose
		tight.IdleGrace = 75 * time.Second
		must(t, s.SetPolicy(tight))
		time.Sleep(150 * time.Second)
		read(t, s, "k") // lowers it to 76 s from now
		time.Sleep(74500 * time.Millisecond)
		_, err = s.TouchEntry(t.Context(), "k", e) // 75.5 s left by the entry, 1.5 s as stored
		must(t, err)
		if left := time.Until(stored(t, under, "k").ExpiresAt.Time()); left < tight.IdleGrace-2*time.Millisecond {
			t.Errorf("TouchEntry leaves %v, want %v", left, tight.IdleGrace)
		}
	})
}

// One process lowers a record to the tighter policy of both. The other has read it under the policy before, and
// forgets that.
func TestRememberedBeforeATighterPolicy(t *testing.T) {
	for name, access := range map[string]func(context.Context, *slidingttl.Store[int], slidingttl.Entry[int]) error{
		"Keep": func(ctx context.Context, s *slidingttl.Store[int], _ slidingttl.Entry[int]) error {
			return s.Keep(ctx, "k")
		},
		"TouchEntry of the other's entry": func(ctx context.Context, s *slidingttl.Store[int], e slidingttl.Entry[int]) error {
			_, err := s.TouchEntry(ctx, "k", e)
			return err
		},
		"Get": func(ctx context.Context, s *slidingttl.Store[int], e slidingttl.Entry[int]) error {
			_, err := s.Get(ctx, "k")
			return err
		},
		"Touch": func(ctx context.Context, s *slidingttl.Store[int], e slidingttl.Entry[int]) error {
			_, err := s.Touch(ctx, "k")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				loose := slidingttl.Policy{IdleGrace: 5 * time.Minute, MaxLifetime: 100 * time.Hour}
				tight := loose
				tight.IdleGrace = 75 * time.Second
				o := &slidingttl.Options[int]{MaxSkew: time.Second}
				a, b := open(t, d, loose, o), open(t, d, loose, o)
				must(t, b.Insert(t.Context(), "k", 1))
				must(t, a.SetPolicy(tight)) // both at once, on the same clock, before any access
				must(t, b.SetPolicy(tight))
				time.Sleep(150 * time.Second)
				read(t, a, "k") // lowers it to 76 s from now
				time.Sleep(74500 * time.Millisecond)
				e, err := a.Peek(t.Context(), "k")
				must(t, err)
				must(t, access(t.Context(), b, e))
				if left := time.Until(stored(t, under, "k").ExpiresAt.Time()); left < tight.IdleGrace-2*time.Millisecond {
					t.Errorf("%s leaves %v, want %v", name, left, tight.IdleGrace)
				}
				time.Sleep(5 * time.Second)
				if _, err := a.Peek(t.Context(), "k"); err != nil {
					t.Errorf("5 s after the access: %v", err)
				}
			})
		})
	}
}

// An expiry that lay beyond the policy when this store read it vouches for nothing: another process may have lowered it.
func TestKeepOfWhatLayBeyondThePolicy(t *testing.T) {
	p := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 1000 * time.Hour}
	for name, reads := range map[string]func(ctx context.Context, s *slidingttl.Store[int]) error{
		"Peek": func(ctx context.Context, s *slidingttl.Store[int]) error { _, err := s.Peek(ctx, "k"); return err },
		"PeekMulti": func(ctx context.Context, s *slidingttl.Store[int]) error {
			_, err := s.PeekMulti(ctx, []string{"k"})
			return err
		},
		"Update": func(ctx context.Context, s *slidingttl.Store[int]) error {
			_, err := s.Update(ctx, "k", func(int) (int, error) { return 0, errDown })
			if errors.Is(err, errDown) {
				return nil
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s, other := open(t, d, p, nil), open(t, d, p, nil)
				plant(under, "k", 90*time.Minute)
				must(t, reads(t.Context(), s))
				read(t, other, "k")
				time.Sleep(29*time.Minute + 30*time.Second)
				must(t, s.Keep(t.Context(), "k"))
				if left := time.Until(stored(t, under, "k").ExpiresAt.Time()); left < p.IdleGrace-time.Second {
					t.Errorf("Keep leaves %v, want %v", left, p.IdleGrace)
				}
			})
		})
	}
}

var (
	fiveMinutes = slidingttl.Policy{IdleGrace: 5 * time.Minute, MaxLifetime: 100 * time.Hour}
	seventyFive = slidingttl.Policy{IdleGrace: 75 * time.Second, MaxLifetime: 100 * time.Hour}
)

// keepAfterTightening wants b's Keep to hold by seventyFive, where b has just written the record by fiveMinutes and a lowers
// it.
func keepAfterTightening(t *testing.T, under *hoard[int], a, b *slidingttl.Store[int]) {
	t.Helper()
	time.Sleep(150 * time.Second)
	read(t, a, "k") // lowers it to 76 s from now
	time.Sleep(75 * time.Second)
	must(t, b.Keep(t.Context(), "k"))
	if left := time.Until(stored(t, under, "k").ExpiresAt.Time()); left < seventyFive.IdleGrace-2*time.Millisecond {
		t.Errorf("Keep leaves %v, want %v", left, seventyFive.IdleGrace)
	}
	time.Sleep(5 * time.Second)
	if _, err := a.Peek(t.Context(), "k"); err != nil {
		t.Errorf("5 s after the access: %v", err)
	}
}

// Both processes' PolicyFor begins to return a tighter policy, at once and on the same clock. One lowers the record, of
// which the other remembers what it wrote under the policy before.
func TestRememberedBeforePolicyForIsTighter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var p atomic.Pointer[slidingttl.Policy]
		p.Store(&fiveMinutes)
		o := &slidingttl.Options[int]{MaxSkew: time.Second, PolicyFor: func(string) slidingttl.Policy { return *p.Load() }}
		a, b := open(t, d, fiveMinutes, o), open(t, d, fiveMinutes, o)
		must(t, b.Insert(t.Context(), "k", 1))
		p.Store(&seventyFive)
		keepAfterTightening(t, under, a, b)
	})
}

// Two processes of the same (tighter) policy, whose clocks are 50 s apart, within MaxSkew (1 min). Both lower the
// record; then the one ahead Keeps it.
func TestKeepAfterTwoLowered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		p := slidingttl.Policy{IdleGrace: 5 * time.Minute, MaxLifetime: 1000 * time.Hour}
		behind := 50 * time.Second
		a := open(t, d, p, nil)
		b := open(t, d, p, &slidingttl.Options[int]{Now: func() time.Time { return time.Now().Add(-behind) }})
		plant(under, "k", time.Hour) // by the looser policy before
		time.Sleep(2 * time.Minute)
		read(t, a, "k") // lowers it to now + 6 min
		read(t, b, "k") // lowers it to its now + 6 min: now + 5 min 10 s
		time.Sleep(59 * time.Second)
		at := time.Now()
		must(t, a.Keep(t.Context(), "k")) // promises 5 min
		if left := stored(t, under, "k").ExpiresAt.Time().Sub(at); left < p.IdleGrace {
			t.Errorf("Keep leaves %v, want %v", left, p.IdleGrace)
		}
		time.Sleep(p.IdleGrace - time.Since(at) - time.Second)
		if _, err := a.Get(t.Context(), "k"); err != nil {
			t.Errorf("1 s before the deadline of Keep, by the same process: %v", err)
		}
	})
}

// The same, where the one ahead has only read what is not yet beyond the policy by its clock.
func TestKeepOfWhatIsBeyondForOneBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		p := slidingttl.Policy{IdleGrace: 5 * time.Minute, MaxLifetime: 1000 * time.Hour}
		behind := 50 * time.Second
		a := open(t, d, p, nil)
		b := open(t, d, p, &slidingttl.Options[int]{Now: func() time.Time { return time.Now().Add(-behind) }})
		plant(under, "k", 6*time.Minute)
		read(t, a, "k")
		read(t, b, "k")
		time.Sleep(59 * time.Second)
		at := time.Now()
		must(t, a.Keep(t.Context(), "k"))
		if left := stored(t, under, "k").ExpiresAt.Time().Sub(at); left < p.IdleGrace {
			t.Errorf("Keep leaves %v, want %v", left, p.IdleGrace)
		}
	})
}

// SetPolicy makes the policy tighter while the first Insert of a process learns the server's time. What that Insert writes
// by the policy before is remembered, although SetPolicy forgets what was remembered under it.
func TestInsertedWhileThePolicyBecameTighter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		o := &slidingttl.Options[int]{MaxSkew: time.Second}
		release := make(chan bool)
		a, b := open(t, d, fiveMinutes, o), open(t, learning{d, func() { <-release }}, fiveMinutes, o)
		var wg sync.WaitGroup
		wg.Go(func() { must(t, b.Insert(t.Context(), "k", 1)) })
		synctest.Wait()
		must(t, a.SetPolicy(seventyFive))
		must(t, b.SetPolicy(seventyFive))
		close(release)
		wg.Wait()
		keepAfterTightening(t, under, a, b)
	})
}

// The answer of a call takes 3 s, in which another process lowers what it shows. By then that lies no longer beyond the
// policy.
func TestKeepOfWhatLayBeyondAsItWasRead(t *testing.T) {
	for name, call := range map[string]func(context.Context, *slidingttl.Store[int]) error{
		"Peek":   func(ctx context.Context, s *slidingttl.Store[int]) error { _, err := s.Peek(ctx, "k"); return err },
		"Upsert": func(ctx context.Context, s *slidingttl.Store[int]) error { return s.Upsert(ctx, "k", 2) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				p := slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: 1000 * time.Hour}
				o := &slidingttl.Options[int]{MaxSkew: time.Second}
				s, other := open(t, d, p, o), open(t, over(under), p, o)
				plant(under, "k", 63*time.Second)
				d.after = func(op, _ string) {
					if op == "get" || op == "replace" {
						time.Sleep(3 * time.Second)
					}
				}
				var wg sync.WaitGroup
				wg.Go(func() { must(t, call(t.Context(), s)) })
				synctest.Wait()
				read(t, other, "k") // lowers it to 61 s
				wg.Wait()
				must(t, s.Keep(t.Context(), "k"))
				if left := time.Until(stored(t, under, "k").ExpiresAt.Time()); left < p.IdleGrace {
					t.Errorf("Keep leaves %v, want %v", left, p.IdleGrace)
				}
			})
		})
	}
}

// Promise 1 beside a write that is to lower the expiry and has not landed: what it planned may be less than a later access
// is owed, whatever that one read.
func TestReadBesideALowering(t *testing.T) {
	hour := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 1000 * time.Hour}
	slack, day := hour, hour
	slack.Slack, day.IdleGrace = time.Minute, 24*time.Hour
	for name, c := range map[string]struct {
		was         slidingttl.Policy
		idle, later time.Duration // the idle grace, and that of the second access
		age         time.Duration // of the record when the first access comes
		takes, gap  time.Duration // of the write, and to the second access
		upsert      bool
		keep        bool // the second access
	}{
		"touch":                   {hour, 10 * time.Minute, 10 * time.Minute, time.Second, 3 * time.Second, 1900 * time.Millisecond, false, false},
		"policy raised meanwhile": {hour, 10 * time.Minute, 30 * time.Minute, time.Second, 3 * time.Second, 1900 * time.Millisecond, false, false},
		"policy set back":         {slack, 10 * time.Minute, time.Hour, time.Second, 3 * time.Second, time.Second, false, false},
		"no longer beyond":        {hour, 10 * time.Minute, 10 * time.Minute, 50*time.Minute - 2500*time.Millisecond, 4 * time.Second, 1900 * time.Millisecond, false, false},
		"for minutes":             {day, 10 * time.Hour, 10 * time.Hour, time.Second, 100 * time.Second, 80 * time.Second, false, false},
		"upsert":                  {hour, 10 * time.Minute, 10 * time.Minute, time.Second, 4 * time.Second, 2 * time.Second, true, false},
		"Keep":                    {slack, 10 * time.Minute, time.Hour, time.Second, 3 * time.Second, time.Second, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s := open(t, d, c.was, &slidingttl.Options[int]{MaxSkew: time.Second, TouchTimeout: 3 * time.Minute})
				must(t, s.Insert(t.Context(), "k", 1))
				p := c.was
				p.IdleGrace = c.idle
				must(t, s.SetPolicy(p))
				time.Sleep(c.age)
				slow := once("touch", func() { time.Sleep(c.takes) })
				if c.upsert {
					slow = once("replace", func() { time.Sleep(c.takes) })
				}
				d.before = func(_ context.Context, op, _ string) error { slow(op); return nil }
				go func() {
					if c.upsert {
						_, _ = s.Peek(t.Context(), "k") // so that it is remembered
						_ = s.Upsert(t.Context(), "k", 2)
						return
					}
					_, _ = s.Get(t.Context(), "k")
				}()
				time.Sleep(c.gap)
				p.IdleGrace = c.later
				must(t, s.SetPolicy(p))
				at := time.Now()
				if c.keep {
					_, _ = s.Peek(t.Context(), "k") // so that it is remembered
					must(t, s.Keep(t.Context(), "k"))
				} else {
					read(t, s, "k")
				}
				time.Sleep(10 * time.Minute)
				if left := stored(t, under, "k").ExpiresAt.Time().Sub(at); left < c.later {
					t.Errorf("the access beside it leaves %v; want %v: %+v", left, c.later, s.Stats())
				}
				if n := s.Stats(); n.TouchFails+n.Shed+n.Damped > 0 {
					t.Errorf("one failed: %+v", n)
				}
			})
		})
	}
}

// Over a local driver too an access does not count as served by a lowering that is under way.
func TestReadBesideALoweringInMemory(t *testing.T) {
	for _, later := range []time.Duration{10 * time.Minute, time.Hour} { // the second access's idle grace
		t.Run(later.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, err := memory.New[int](nil)
				must(t, err)
				defer m.Close()
				d := &heldMemory{Driver: m, hold: func() {}}
				p := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 1000 * time.Hour, Slack: time.Minute}
				s := open[int](t, d, p, nil)
				must(t, s.Insert(t.Context(), "k", 1))
				p.IdleGrace, p.Slack = 10*time.Minute, 0
				must(t, s.SetPolicy(p))
				time.Sleep(time.Second)
				d.hold = sync.OnceFunc(func() { time.Sleep(20 * time.Millisecond) })
				var first sync.WaitGroup
				first.Go(func() { _, _ = s.Get(t.Context(), "k") })
				time.Sleep(10 * time.Millisecond)
				if p.IdleGrace = later; later == time.Hour {
					p.Slack = time.Minute
				}
				must(t, s.SetPolicy(p))
				at := time.Now()
				read(t, s, "k")
				first.Wait()
				if left := stored(t, m, "k").ExpiresAt.Time().Sub(at); left < later {
					t.Errorf("the access beside it leaves %v; want %v: %+v", left, later, s.Stats())
				}
			})
		})
	}
}

// Promise 1: an access that read beside a lowering, but gets its answer when that has ended, outlasts it too.
func TestReadAnsweredAfterALowering(t *testing.T) {
	hour := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 1000 * time.Hour}
	slack := hour
	slack.Slack = time.Minute
	for name, c := range map[string]struct {
		was   slidingttl.Policy
		later time.Duration // idle grace of the second access
		age   time.Duration // of the record when the first access comes
	}{
		"still beyond":     {hour, 10 * time.Minute, time.Second},
		"no longer beyond": {hour, 10 * time.Minute, 50*time.Minute - 4*time.Second},
		"policy set back":  {slack, time.Hour, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s := open(t, d, c.was, &slidingttl.Options[int]{MaxSkew: time.Second})
				must(t, s.Insert(t.Context(), "k", 1))
				p := c.was
				p.IdleGrace = 10 * time.Minute
				must(t, s.SetPolicy(p))
				time.Sleep(c.age)
				slow := once("touch", func() { time.Sleep(3 * time.Second) })
				d.before = func(_ context.Context, op, _ string) error { slow(op); return nil }
				read(t, s, "k")
				time.Sleep(2400 * time.Millisecond)
				late := once("get", func() { time.Sleep(time.Second) })
				d.after = func(op, _ string) { late(op) }
				p.IdleGrace = c.later
				must(t, s.SetPolicy(p))
				began := time.Now()
				read(t, s, "k")
				time.Sleep(10 * time.Second)
				if left := stored(t, under, "k").ExpiresAt.Time().Sub(began); left < c.later {
					t.Errorf("the access leaves %v; want %v: %+v", left, c.later, s.Stats())
				}
			})
		})
	}
}

// A TouchEntry of what this store lowered before that was read needs no touch, and no trip.
func TestTouchEntryAfterALowering(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		p := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 1000 * time.Hour, Slack: 10 * time.Minute}
		s := open(t, d, p, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		p.IdleGrace = 30 * time.Minute
		must(t, s.SetPolicy(p))
		time.Sleep(time.Second)
		read(t, s, "k")
		time.Sleep(time.Minute)
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		d.counts()
		was := s.Stats()
		_, err = s.TouchEntry(t.Context(), "k", e)
		must(t, err)
		if n := s.Stats(); was.Lowered != 1 || n.Due != was.Due || len(d.counts()) > 0 {
			t.Errorf("TouchEntry found a touch due, or made a trip: %+v", n)
		}
	})
}

// A TouchEntry of what was read before this store lowered it reads again, though the policy is as before.
func TestTouchEntryReadBeforeALowering(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		loose := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 1000 * time.Hour, Slack: 10 * time.Minute}
		tight := loose
		tight.IdleGrace, tight.Slack = 10*time.Minute, time.Minute
		s := open(t, d, loose, &slidingttl.Options[int]{MaxSkew: time.Second})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Second)
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		must(t, s.SetPolicy(tight))
		read(t, s, "k")
		must(t, s.SetPolicy(loose))
		at := time.Now()
		_, err = s.TouchEntry(t.Context(), "k", e)
		must(t, err)
		time.Sleep(time.Second)
		if left := stored(t, under, "k").ExpiresAt.Time().Sub(at); left < loose.IdleGrace {
			t.Errorf("it leaves %v: %+v", left, s.Stats())
		}
	})
}

// Keep goes by nothing from before this store's own lowering, whose answer was lost, or came before that of a read.
func TestKeepAfterItsStoreLowered(t *testing.T) {
	loose := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 1000 * time.Hour, Slack: time.Hour}
	tight := loose
	tight.IdleGrace, tight.Slack = 10*time.Minute, 0
	for name, lower := range map[string]func(t *testing.T, s *slidingttl.Store[int], d *remote[int]){
		"a read is answered later": func(t *testing.T, s *slidingttl.Store[int], d *remote[int]) {
			slow := once("get", func() { time.Sleep(30 * time.Millisecond) })
			d.after = func(op, _ string) { slow(op) }
			go func() { _, _ = s.Get(t.Context(), "k") }()
			time.Sleep(10 * time.Millisecond)
			must(t, s.Upsert(t.Context(), "k", 2))
		},
		"the answer was lost": func(t *testing.T, s *slidingttl.Store[int], d *remote[int]) {
			handle, lost := d.Handle, false
			d.Handle = func(c *fakestore.Call[int]) {
				if handle(c); c.Op == fakestore.Touch && c.Err == nil && !lost {
					lost, c.Err = true, driver.ErrAmbiguous
				}
			}
			read(t, s, "k")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				d.trip = time.Millisecond
				var policy atomic.Pointer[slidingttl.Policy]
				policy.Store(&loose)
				s := open(t, d, loose, &slidingttl.Options[int]{MaxSkew: time.Second, PolicyFor: func(string) slidingttl.Policy { return *policy.Load() }})
				must(t, s.Insert(t.Context(), "k", 1))
				time.Sleep(time.Second)
				read(t, s, "k")
				policy.Store(&tight)
				lower(t, s, d)
				time.Sleep(5 * time.Second)
				if left := time.Until(stored(t, under, "k").ExpiresAt.Time()); left > 11*time.Minute {
					t.Fatalf("%v are left, so that nothing was lowered", left)
				}
				policy.Store(&loose)
				must(t, s.Keep(t.Context(), "k"))
				time.Sleep(time.Second)
				if left := time.Until(stored(t, under, "k").ExpiresAt.Time()); left < loose.IdleGrace-time.Second {
					t.Errorf("Keep leaves %v", left)
				}
			})
		})
	}
}

// Promise 7: a lowering goes by the policy of its own time, whoever told that of the access.
func TestLoweringGoesByThePolicyOfItsTime(t *testing.T) {
	loose := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 1000 * time.Hour, Slack: 10 * time.Minute}
	tight := loose
	tight.IdleGrace, tight.Slack = 10*time.Minute, time.Minute
	for _, byKey := range []bool{false, true} {
		for _, budget := range []float64{0, 1} {
			t.Run(fmt.Sprintf("by key %v, budget %v", byKey, budget), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					d, under := newRemote[int](time.Millisecond)
					d.trip = time.Millisecond
					var policy atomic.Pointer[slidingttl.Policy]
					policy.Store(&loose)
					o := &slidingttl.Options[int]{MaxSkew: time.Second, Budget: budget}
					if byKey {
						o.PolicyFor = func(string) slidingttl.Policy { return *policy.Load() }
					}
					s := open(t, d, loose, o)
					set := func(p slidingttl.Policy) {
						if policy.Store(&p); !byKey {
							must(t, s.SetPolicy(p))
						}
					}
					must(t, s.Insert(t.Context(), "k", 1))
					must(t, s.Insert(t.Context(), "other", 1))
					time.Sleep(5 * time.Second)
					set(tight)
					if budget > 0 {
						read(t, s, "other") // takes the token
						read(t, s, "k")     // whose touch waits
						time.Sleep(100 * time.Millisecond)
					} else {
						slow := once("replace", func() { time.Sleep(2 * time.Second) })
						d.after = func(op, _ string) { slow(op) }
						another := open(t, under, loose, nil)
						must(t, another.Upsert(t.Context(), "k", 5)) // so that s knows nothing of it
						go func() { must(t, s.Upsert(t.Context(), "k", 2)) }()
						time.Sleep(time.Second)
					}
					set(loose)
					at := time.Now()
					read(t, s, "k")
					time.Sleep(10 * time.Second)
					if left := stored(t, under, "k").ExpiresAt.Time().Sub(at); left < loose.IdleGrace {
						t.Errorf("the Get under the looser policy is left %v: %+v", left, s.Stats())
					}
				})
			})
		}
	}
}

// A touch asks PolicyFor as it runs, on a goroutine of the store's: a panic there is that touch's failure.
func TestPolicyForPanicsInATouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		var asked atomic.Int64
		asked.Store(-1000)
		var told error
		s := open(t, d, session, &slidingttl.Options[int]{
			PolicyFor: func(string) slidingttl.Policy {
				if asked.Add(1) == 2 { // by the touch, after the read
					panic("no policy")
				}
				return session
			},
			OnTouchError: func(_ context.Context, _ string, err error) { told = err },
		})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(session.IdleGrace / 2)
		asked.Store(0)
		read(t, s, "k")
		synctest.Wait()
		if _, ok := errors.AsType[*slidingttl.PanicError](told); !ok {
			t.Errorf("OnTouchError was told %v: %+v", told, s.Stats())
		}
	})
}

// A clock that stands at the epoch, as a test's may, claims a lowering too.
func TestLoweringAtTheEpoch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		p := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 100 * time.Hour}
		s := open(t, d, p, &slidingttl.Options[int]{Now: func() time.Time { return time.Unix(0, 0) }})
		must(t, s.Insert(t.Context(), "k", 1))
		p.IdleGrace = 10 * time.Minute
		must(t, s.SetPolicy(p))
		for range 2 {
			began := time.Now()
			_, err := s.Update(t.Context(), "k", func(v int) (int, error) { return v + 1, nil })
			must(t, err)
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("an Update took %v", took)
			}
		}
		if n := s.Stats(); n.TouchFails > 0 || n.Lowered != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// An access over a local driver waits for a lowering only as long as its context.
func TestContextBesideALoweringInMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, err := memory.New[int](nil)
		must(t, err)
		defer m.Close()
		d := &heldMemory{Driver: m, hold: sync.OnceFunc(func() { time.Sleep(time.Minute) })}
		p := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 1000 * time.Hour}
		s := open[int](t, d, p, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		p.IdleGrace = 10 * time.Minute
		must(t, s.SetPolicy(p))
		time.Sleep(time.Second)
		var first sync.WaitGroup
		first.Go(func() { _, _ = s.Get(t.Context(), "k") })
		time.Sleep(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, _ = s.Get(ctx, "k")
		if took := time.Since(began); took > time.Second {
			t.Errorf("with a context of 50 ms it took %v", took)
		}
		first.Wait()
	})
}

// A write that is to lower the expiry and hangs makes no store look failing.
func TestHungLoweringIsNoFailingStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		p := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 1000 * time.Hour}
		s := open(t, d, p, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		p.IdleGrace = 10 * time.Minute
		must(t, s.SetPolicy(p))
		time.Sleep(time.Second)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "replace" {
				return hangs(ctx)
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		hung := make(chan error, 1)
		go func() {
			_, _ = s.Peek(ctx, "k")
			hung <- s.Upsert(ctx, "k", 2)
		}()
		time.Sleep(time.Second)
		for range 180 {
			read(t, s, "k")
			time.Sleep(time.Second)
			if n := s.Stats(); n.BreakerOpen {
				t.Fatalf("the store is said to fail: %+v", n)
			}
		}
		cancel()
		<-hung
	})
}

// A driver's wrapper that reads the key which it lowers gets an answer.
func TestGetWithinALoweringInMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, err := memory.New[int](nil)
		must(t, err)
		defer m.Close()
		d := &heldMemory{Driver: m, hold: func() {}}
		p := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 1000 * time.Hour}
		s := open[int](t, d, p, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		p.IdleGrace = 10 * time.Minute
		must(t, s.SetPolicy(p))
		time.Sleep(time.Second)
		d.hold = sync.OnceFunc(func() { read(t, s, "k") })
		began := time.Now()
		read(t, s, "k")
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// Nor does an access under exact rules count as served by an expiry that is to be lowered.
func TestHitAtTheCapBesideALowering(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, err := memory.New[int](nil)
		must(t, err)
		defer m.Close()
		d := &heldMemory{Driver: m, hold: func() {}}
		p := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: time.Hour}
		s := open[int](t, d, p, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		p.IdleGrace = 10 * time.Minute
		must(t, s.SetPolicy(p))
		time.Sleep(50*time.Minute - 10*time.Millisecond)
		d.hold = sync.OnceFunc(func() { time.Sleep(40 * time.Millisecond) })
		var first sync.WaitGroup
		first.Go(func() { _, _ = s.Get(t.Context(), "k") })
		time.Sleep(20 * time.Millisecond)
		at := time.Now()
		read(t, s, "k")
		first.Wait()
		if left := stored(t, m, "k").ExpiresAt.Time().Sub(at); left < 10*time.Minute-10*time.Millisecond { // the cap
			t.Errorf("the access beside it leaves %v: %+v", left, s.Stats())
		}
	})
}

// A write that panics, or ends its goroutine, leaves the lowering of the expiry to the next.
func TestLoweringAfterAPanic(t *testing.T) {
	add := func(v int) (int, error) { return v + 1, nil }
	for op, write := range map[string]func(context.Context, *slidingttl.Store[int]){
		"replace": func(ctx context.Context, s *slidingttl.Store[int]) {
			_, _ = s.Peek(ctx, "k")
			_ = s.Upsert(ctx, "k", 2)
		},
		"update": func(ctx context.Context, s *slidingttl.Store[int]) { _, _ = s.Update(ctx, "k", add) },
		"touch":  func(ctx context.Context, s *slidingttl.Store[int]) { _, _ = s.Get(ctx, "k") },
	} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				p := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 1000 * time.Hour}
				s := open(t, d, p, nil)
				must(t, s.Insert(t.Context(), "k", 1))
				p.IdleGrace = 10 * time.Minute
				must(t, s.SetPolicy(p))
				time.Sleep(time.Second)
				var once atomic.Bool
				d.before = func(_ context.Context, called, _ string) error {
					if (called == "touch" || called == "replace") && once.CompareAndSwap(false, true) {
						runtime.Goexit()
					}
					return nil
				}
				var first sync.WaitGroup
				first.Go(func() { write(t.Context(), s) })
				first.Wait()
				time.Sleep(time.Minute)
				read(t, s, "k")
				time.Sleep(time.Second)
				if left := stored(t, under, "k").ExpiresAt.Sub(instant(time.Now())); left > 11*time.Minute {
					t.Errorf("lives for %v more, want 10 min: %+v", left, s.Stats())
				}
			})
		})
	}
}

// heldMemory is a memory driver whose touches are held up.
type heldMemory struct {
	*memory.Driver[int]
	hold func()
}

func (h *heldMemory) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	h.hold()
	return h.Driver.Touch(ctx, key, was, life, now)
}
