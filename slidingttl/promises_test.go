package slidingttl_test

import (
	"context"
	"errors"
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

const day = 24 * time.Hour

var session = slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour}

func withSlack(p slidingttl.Policy, slack time.Duration) slidingttl.Policy {
	p.Slack = slack
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func stored[T any](t *testing.T, d driver.Driver[T], key string) driver.Entry[T] {
	t.Helper()
	e, err := d.Get(t.Context(), key)
	must(t, err)
	return e
}

func instant(t time.Time) driver.Instant { return driver.Floor(t) }

// Promise 1.
func TestTouchWritesExactlyTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		born := time.Now()
		for range 100 {
			time.Sleep(rand.N(29 * time.Minute))
			at := time.Now()
			_, err := s.Get(t.Context(), "k")
			if at.Sub(born) >= session.MaxLifetime {
				wantErr(t, err, slidingttl.ErrNotFound)
				return
			}
			must(t, err)
			want := session.Deadline(instant(born), driver.Ceil(at))
			if got := stored(t, under, "k").ExpiresAt; got != want {
				t.Fatalf("%v after creation the touch wrote C + %v, want C + %v",
					at.Sub(born), got.Sub(instant(born)), want.Sub(instant(born)))
			}
		}
		t.Fatal("never reached the cap")
	})
}

// Promise 2.
func TestTouchOnlyWhenDue(t *testing.T) {
	for _, slack := range []time.Duration{time.Minute, 3 * time.Minute, 20 * time.Minute} {
		t.Run(slack.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, _ := newRemote[int](time.Millisecond)
				s := open(t, d, withSlack(session, slack), nil)
				must(t, s.Insert(t.Context(), "k", 1))
				for range (11*60 + 31) * 12 { // every 5 s for eleven hours and a half
					time.Sleep(5 * time.Second)
					_, err := s.Get(t.Context(), "k")
					must(t, err)
				}
				var last time.Time
				touches := 0
				for _, l := range d.lives {
					if l.op != "touch" {
						continue
					}
					if touches++; touches > 1 && l.at.Sub(last) < slack-slack/16 {
						t.Fatalf("touched again after %v, slack is %v", l.at.Sub(last), slack)
					}
					last = l.at
				}
				if least := int(8 * time.Hour / (slack + 5*time.Second)); touches < least {
					t.Errorf("%d touches, want at least %d", touches, least)
				}

				// In the last half hour the expiry is the cap.
				before := d.count("touch")
				for range 5 {
					time.Sleep(5 * time.Minute)
					_, err := s.Get(t.Context(), "k")
					must(t, err)
				}
				if n := d.count("touch") - before; n != 0 {
					t.Errorf("%d touches at the cap, want none", n)
				}
			})
		})
	}
}

// Promise 3, on a store that knows whole seconds only.
func TestNeverEarly(t *testing.T) {
	t.Parallel()
	for _, slack := range []time.Duration{0, time.Second, 7 * time.Second} {
		t.Run(slack.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, _ := newRemote[int](time.Second)
				p := slidingttl.Policy{IdleGrace: 90 * time.Second, MaxLifetime: time.Hour, Slack: slack}
				s := open(t, d, p, nil)
				for i := range 500 {
					key := fmt.Sprint("k", i)
					time.Sleep(rand.N(3 * time.Second))
					must(t, s.Insert(t.Context(), key, 1))
					for range 3 {
						// To the last nanosecond before the deadline, which itself counts
						// from the access to the nanosecond.
						time.Sleep(p.IdleGrace - 1)
						if _, err := s.Get(t.Context(), key); err != nil {
							t.Fatalf("dead 1 ns before its deadline: %v", err)
						}
					}
				}
			})
		})
	}
}

// Promise 4: an idle record on a store that deletes nothing by itself.
func TestNeverLate(t *testing.T) {
	for _, step := range []time.Duration{time.Millisecond, time.Second} {
		for _, slack := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprint(step, slack), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					d, _ := newRemote[int](step)
					s := open(t, d, withSlack(session, slack), nil)
					for i := range 200 {
						key := fmt.Sprint("k", i)
						time.Sleep(rand.N(3 * time.Second))
						must(t, s.Insert(t.Context(), key, 1))
						time.Sleep(rand.N(20 * time.Minute))
						_, err := s.Get(t.Context(), key)
						must(t, err)
						time.Sleep(session.IdleGrace + slack + step)
						_, err = s.Get(t.Context(), key)
						wantErr(t, err, slidingttl.ErrNotFound)
					}
				})
			})
		}
	}
}

// Promise 4: a hot record.
func TestNeverPastTheCap(t *testing.T) {
	for _, promote := range []bool{false, true} {
		t.Run(fmt.Sprint("promote ", promote), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Second)
				p := session
				p.Promote = promote
				s := open(t, d, p, nil)
				time.Sleep(123 * time.Millisecond)
				must(t, s.Insert(t.Context(), "k", 1))
				born := time.Now()
				for time.Since(born) < session.MaxLifetime-time.Minute {
					time.Sleep(time.Minute)
					_, err := s.Get(t.Context(), "k")
					must(t, err)
				}
				time.Sleep(session.MaxLifetime - time.Since(born) - 1)
				_, err := s.Get(t.Context(), "k")
				must(t, err)
				time.Sleep(time.Nanosecond)
				if e := stored(t, under, "k"); !e.Alive(instant(time.Now())) {
					t.Fatalf("the stored expiry, rounded up, should still be to come")
				}
				for name, call := range map[string]func() error{
					"Get":   func() error { _, err := s.Get(t.Context(), "k"); return err },
					"Entry": func() error { _, err := s.Entry(t.Context(), "k"); return err },
					"Peek":  func() error { _, err := s.Peek(t.Context(), "k"); return err },
					"Touch": func() error { _, err := s.Touch(t.Context(), "k"); return err },
					"Update": func() error {
						_, err := s.Update(t.Context(), "k", func(v int) (int, error) { return v + 1, nil })
						return err
					},
				} {
					if err := call(); !errors.Is(err, slidingttl.ErrNotFound) {
						t.Errorf("%s at the cap: %v, want not found", name, err)
					}
				}
				if m, err := s.GetMulti(t.Context(), []string{"k"}); err != nil || len(m) != 0 {
					t.Errorf("GetMulti at the cap: %v, %v", m, err)
				}
				must(t, s.Insert(t.Context(), "k", 2))
				if e := stored(t, under, "k"); e.CreatedAt != instant(time.Now()) || e.Value != 2 {
					t.Errorf("an insert at the cap did not start a new life")
				}
			})
		})
	}
}

// Promise 5: a touch that is under way when its record is deleted.
func TestDeletedRecordStaysDead(t *testing.T) {
	for _, mode := range []slidingttl.TouchMode{slidingttl.Wait, slidingttl.Background} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Second)
				d.trip = 100 * time.Millisecond
				s := open(t, d, session, &slidingttl.Options[int]{Touches: mode})
				must(t, s.Insert(t.Context(), "k", 1))
				time.Sleep(time.Minute)
				var wg sync.WaitGroup
				wg.Go(func() {
					// Reads the live record, touches it after it was deleted.
					v, err := s.Get(t.Context(), "k")
					if v != 1 || err != nil {
						t.Errorf("the read's answer does not stand: %v, %v", v, err)
					}
				})
				time.Sleep(150 * time.Millisecond)
				must(t, under.Delete(t.Context(), "k"))
				wg.Wait()
				time.Sleep(time.Minute)
				_, err := under.Get(t.Context(), "k")
				wantErr(t, err, driver.ErrNotFound)
				if st := s.Stats(); st.TouchLost != 1 || st.TouchFails != 0 {
					t.Errorf("stats %+v, want one lost touch and no failure", st)
				}
			})
		})
	}
}

// Promise 5: a touch that reaches a record only after it expired.
func TestExpiredRecordStaysDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		block := make(chan struct{})
		d.before = func(ctx context.Context, op, key string) error {
			if op == "touch" && key == "slow" {
				<-block
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 1, TouchTimeout: time.Hour})
		must(t, s.Insert(t.Context(), "slow", 1))
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(30*time.Minute - 30*time.Second)
		for _, k := range []string{"slow", "k"} {
			_, err := s.Get(t.Context(), k)
			must(t, err)
		}
		time.Sleep(45 * time.Second) // k's touch waits in the queue while k dies
		_, err := s.Get(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
		close(block)
		time.Sleep(time.Minute)
		if e := stored(t, under, "k"); e.Alive(instant(time.Now())) {
			t.Errorf("the queued touch revived a record that was read dead")
		}
		if n := d.count("touch"); n != 1 {
			t.Errorf("%d touches were sent, want that of the slow key only", n)
		}
		must(t, s.Upsert(t.Context(), "k", 2))
		if e := stored(t, under, "k"); e.CreatedAt != instant(time.Now()) {
			t.Errorf("an upsert after death did not start a new life")
		}
	})
}

// Promise 6.
func TestOverwriteKeepsCreatedAt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		s := open(t, d, session, nil)
		time.Sleep(777 * time.Millisecond)
		must(t, s.Insert(t.Context(), "k", 0))
		born := instant(time.Now())
		wantErr(t, s.Insert(t.Context(), "k", 9), slidingttl.ErrExists)
		other := open(t, d, session, nil) // another process, which knows nothing of k
		for i := 1; instant(time.Now()) < session.Cap(born).Add(-20*time.Minute); i++ {
			time.Sleep(20 * time.Minute)
			switch i % 3 {
			case 0:
				must(t, s.Upsert(t.Context(), "k", i))
			case 1:
				must(t, other.Upsert(t.Context(), "k", i))
			case 2:
				_, err := s.Update(t.Context(), "k", func(int) (int, error) { return i, nil })
				must(t, err)
			}
			e := stored(t, under, "k")
			if e.CreatedAt != born || e.Value != i {
				t.Fatalf("write %d: created_at moved by %v, value %d", i, e.CreatedAt.Sub(born), e.Value)
			}
			if want := session.Deadline(born, driver.Ceil(time.Now())).RoundUp(time.Second); e.ExpiresAt != want {
				t.Fatalf("write %d: expiry is off by %v", i, e.ExpiresAt.Sub(want))
			}
		}
		time.Sleep(20 * time.Minute)
		must(t, s.Upsert(t.Context(), "k", 1))
		if e := stored(t, under, "k"); e.CreatedAt != instant(time.Now()) {
			t.Errorf("an upsert past the cap kept the old created_at")
		}
	})
}

// Promise 6: a touch, and an upsert that remembers, meet another generation.
func TestOtherGenerationIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[string](time.Second)
		s := open(t, d, session, nil)
		must(t, s.Insert(t.Context(), "k", "old"))
		time.Sleep(time.Minute)
		d.before = func(_ context.Context, op, _ string) error {
			if op == "touch" {
				under.Plant("k", "new", driver.Life{CreatedAt: instant(time.Now()), ExpiresAt: instant(time.Now().Add(time.Second))})
			}
			return nil
		}
		v, err := s.Get(t.Context(), "k")
		if must(t, err); v != "old" {
			t.Errorf("read %q", v)
		}
		if e := stored(t, under, "k"); e.ExpiresAt != instant(time.Now().Add(time.Second)) {
			t.Errorf("a touch for one generation landed on the next")
		}
		d.before = nil
		must(t, s.Upsert(t.Context(), "k", "newer"))
		if e := stored(t, under, "k"); e.CreatedAt != instant(time.Now()) {
			t.Errorf("the upsert wrote the created_at it remembered")
		}
	})
}

// Promise 7: touches that land in the wrong order.
func TestLateTouchNeverShortens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		fast, slow := open(t, d, session, nil), open(t, d, session, nil)
		must(t, fast.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		var held atomic.Bool
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" && held.CompareAndSwap(false, true) {
				return sleep(ctx, 4*time.Second)
			}
			return nil
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := slow.Get(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(2 * time.Second)
		_, err := fast.Get(t.Context(), "k")
		must(t, err)
		want := session.Deadline(stored(t, under, "k").CreatedAt, instant(time.Now()))
		wg.Wait()
		if e := stored(t, under, "k"); e.ExpiresAt != want {
			t.Errorf("the late touch moved the expiry by %v", e.ExpiresAt.Sub(want))
		}
	})
}

// Promise 7: a write by a node whose clock is behind.
func TestSlowClockNeverShortens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		behind := func() time.Time { return time.Now().Add(-5 * time.Second) }
		a := open(t, d, session, nil)
		b := open(t, d, session, &slidingttl.Options[int]{Now: behind})
		must(t, a.Insert(t.Context(), "k", 1))
		last := driver.Instant(0)
		for i := range 100 {
			time.Sleep(time.Second)
			s := []*slidingttl.Store[int]{a, b}[i%2]
			switch i % 3 {
			case 0:
				_, err := s.Get(t.Context(), "k")
				must(t, err)
			case 1:
				must(t, s.Upsert(t.Context(), "k", i))
			case 2:
				_, err := s.Update(t.Context(), "k", func(v int) (int, error) { return v, nil })
				must(t, err)
			}
			e := stored(t, under, "k")
			if e.ExpiresAt < last {
				t.Fatalf("step %d shortened the life by %v", i, last.Sub(e.ExpiresAt))
			}
			last = e.ExpiresAt
		}
	})
}

// Promise 7: the exception.
func TestTighterPolicyAppliesOnNextAccess(t *testing.T) {
	for _, step := range []time.Duration{time.Millisecond, time.Second} {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[int](step)
			loose := open(t, d, slidingttl.Policy{IdleGrace: 24 * time.Hour, MaxLifetime: 48 * time.Hour}, nil)
			tight := open(t, d, slidingttl.Policy{IdleGrace: 12 * time.Hour, MaxLifetime: 12*time.Hour + 1500*time.Millisecond}, nil)
			must(t, loose.Insert(t.Context(), "k", 1))
			born := instant(time.Now())
			limit := born.Add(12*time.Hour + 1500*time.Millisecond)
			time.Sleep(time.Hour)
			for range 3 {
				_, err := tight.Get(t.Context(), "k")
				must(t, err)
				if e := stored(t, under, "k"); e.ExpiresAt != limit.Add(time.Minute).RoundUp(step) {
					t.Errorf("expiry C + %v, want the new cap and the skew of clocks", e.ExpiresAt.Sub(born))
				}
			}
			if n := d.count("touch"); n != 1 {
				t.Errorf("%d touches to apply a tighter policy, want 1", n)
			}
			time.Sleep(limit.Sub(instant(time.Now())))
			_, err := tight.Get(t.Context(), "k")
			wantErr(t, err, slidingttl.ErrNotFound)
		})
	}
}

var errDown = errors.New("store is down")

// Promise 8.
func TestReadStandsWhenTouchFails(t *testing.T) {
	for _, mode := range []slidingttl.TouchMode{slidingttl.Wait, slidingttl.Background} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, _ := newRemote[int](time.Second)
				d.before = func(_ context.Context, op, _ string) error {
					if op == "touch" {
						return errDown
					}
					return nil
				}
				var hooked []error
				var keys []string
				s := open(t, d, session, &slidingttl.Options[int]{
					Touches:      mode,
					OnTouchError: func(_ context.Context, key string, err error) { keys, hooked = append(keys, key), append(hooked, err) },
				})
				must(t, s.Insert(t.Context(), "secret", 7))
				time.Sleep(time.Minute)
				v, err := s.Get(t.Context(), "secret")
				if v != 7 || err != nil {
					t.Errorf("read %v, %v", v, err)
				}
				time.Sleep(time.Second / 2)
				synctest.Wait() // the hook has run
				if st := s.Stats(); st.TouchFails != 1 || st.Due != 1 || st.Touched != 0 {
					t.Errorf("stats %+v", st)
				}
				if len(hooked) != 1 || !errors.Is(hooked[0], errDown) || keys[0] != "secret" {
					t.Errorf("the hook got %v", hooked)
				}
			})
		})
	}
}

// Promise 8: the strict option.
func TestStrictReadFailsWithItsTouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		s := open(t, d, session, &slidingttl.Options[int]{Strict: true})
		must(t, s.Insert(t.Context(), "k", 1))
		must(t, s.Insert(t.Context(), "l", 1))
		time.Sleep(time.Minute)
		d.before = func(_ context.Context, op, _ string) error {
			if op == "touch" {
				return errDown
			}
			return nil
		}
		_, err := s.Get(t.Context(), "k")
		var wrapped *slidingttl.Error
		if !errors.Is(err, errDown) || !errors.As(err, &wrapped) || wrapped.Op != "get" {
			t.Errorf("error %v, want the touch's, wrapped", err)
		}
		if m, err := s.GetMulti(t.Context(), []string{"k", "l", "none"}); !errors.Is(err, errDown) || len(m) != 2 {
			t.Errorf("GetMulti: %v, %v", m, err)
		}
		// A record that vanishes is not found, and no failure.
		d.before = func(ctx context.Context, op, key string) error {
			if op == "touch" {
				return under.Delete(ctx, key)
			}
			return nil
		}
		_, err = s.Get(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
		if st := s.Stats(); st.TouchFails != 3 || st.TouchLost != 1 {
			t.Errorf("stats %+v", st)
		}
	})
}

// Promise 9.
func TestConcurrentTouchesShareOneCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Second)
		d.trip = 30 * time.Millisecond
		s := open(t, d, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		d.counts()
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if _, err := s.Get(t.Context(), "k"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := d.count("touch"); n != 1 {
			t.Errorf("%d touches for 1000 reads at one instant, want 1", n)
		}
		if st := s.Stats(); st.Touched != 1 || st.Shared != 999 {
			t.Errorf("stats %+v", st)
		}
	})
}

// Promise 9: a caller that waits for the touch of a record that others rewrite meanwhile is not told that it is gone.
func TestTouchOfRewrittenRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		slow := once("touch", func() { time.Sleep(4 * time.Second) })
		d.before = func(_ context.Context, op, _ string) error { slow(op); return nil }
		under.Plant("k", 0, driver.Life{})
		var callers sync.WaitGroup
		for i := range 100 { // as many lives, each with its touch
			under.Plant("k", i, driver.Life{})
			callers.Go(func() {
				if _, err := s.Touch(t.Context(), "k"); err != nil {
					t.Errorf("touch %d: %v", i, err)
				}
			})
			time.Sleep(20 * time.Millisecond)
			_, err := s.Get(t.Context(), "k")
			must(t, err)
		}
		callers.Wait()
	})
}

// Promise 9: reads that began before a touch landed do not touch again.
func TestReadsUnderATouchDoNotTouchAgain(t *testing.T) {
	for _, mode := range []slidingttl.TouchMode{slidingttl.Wait, slidingttl.Background} {
		bubble(t, func(t *testing.T) {
			d, _ := newRemote[int](time.Second)
			d.trip = 50 * time.Millisecond
			s := open(t, d, withSlack(session, 3*time.Minute), &slidingttl.Options[int]{Touches: mode})
			must(t, s.Insert(t.Context(), "k", 1))
			time.Sleep(5 * time.Minute)
			d.counts()
			var wg sync.WaitGroup
			for range 500 {
				time.Sleep(time.Millisecond)
				wg.Go(func() {
					if _, err := s.Get(t.Context(), "k"); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			time.Sleep(time.Second)
			if n := d.count("touch"); n != 1 {
				t.Errorf("mode %v: %d touches in one slack, want 1", mode, n)
			}
		})
	}
}

// Promise 9: what this process touched last decides nothing once another wrote.
func TestStoreIsBelievedOverTheMemo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		s := open(t, d, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		_, err := s.Get(t.Context(), "k")
		must(t, err)
		e := stored(t, under, "k")
		for range 3 {
			under.Plant("k", 1, driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: instant(time.Now().Add(time.Minute))})
			_, err = s.Get(t.Context(), "k")
			must(t, err)
			if got := stored(t, under, "k").ExpiresAt; got != e.ExpiresAt {
				t.Errorf("the read is promised %v more than is stored", e.ExpiresAt.Sub(got))
			}
		}
	})
}

// Promise 9: the first caller leaves; those who wait with it are served.
func TestCallerThatLeavesFailsNobody(t *testing.T) {
	type ctxKey struct{}
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		values := make(chan any, 10)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				values <- ctx.Value(ctxKey{})
				return sleep(ctx, time.Second)
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{Strict: true})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), ctxKey{}, "trace"))
		var wg sync.WaitGroup
		wg.Go(func() {
			start := time.Now()
			if _, err := s.Get(ctx, "k"); err != context.Canceled {
				t.Errorf("the caller that left got %v, want its context's error unchanged", err)
			}
			if d := time.Since(start); d > 200*time.Millisecond {
				t.Errorf("the caller that left was held for %v", d)
			}
		})
		time.Sleep(100 * time.Millisecond)
		for range 10 {
			wg.Go(func() {
				if v, err := s.Get(t.Context(), "k"); v != 1 || err != nil {
					t.Errorf("a waiter got %v, %v", v, err)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		cancel()
		wg.Wait()
		if value := <-values; value != "trace" {
			t.Errorf("the touch ran without its caller's values: %v", value)
		}
		if e := stored(t, under, "k"); e.ExpiresAt.Time().Before(time.Now().Add(session.IdleGrace - 2*time.Second)) {
			t.Errorf("the touch was not carried out")
		}
	})
}

// Promise 8: a read does not wait long for its touch, which goes on.
func TestReadWaitsBriefly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, time.Second)
			}
			return nil
		}
		for wait, want := range map[time.Duration]time.Duration{0: 100 * time.Millisecond, time.Hour: time.Second, 1: 1} {
			s := open(t, d, session, &slidingttl.Options[int]{TouchWait: wait})
			must(t, s.Upsert(t.Context(), "k", 1))
			time.Sleep(time.Minute)
			start := time.Now()
			_, err := s.Get(t.Context(), "k")
			must(t, err)
			if took := time.Since(start); took != want {
				t.Errorf("TouchWait %v: the read took %v, want %v", wait, took, want)
			}
			must(t, s.Close(t.Context()))
			if e := stored(t, under, "k"); e.ExpiresAt < instant(start.Add(session.IdleGrace)) {
				t.Errorf("TouchWait %v: the touch did not go on", wait)
			}
		}
	})
}

// Promise 9: the touch has a timeout of its own.
func TestTouchTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Second)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{TouchTimeout: 2 * time.Second, TouchWait: time.Hour})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		start := time.Now()
		v, err := s.Get(t.Context(), "k")
		if v != 1 || err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("got %v, %v after %v", v, err, time.Since(start))
		}
	})
}

// Promise 9: a waiter promised more than the shared touch wrote touches again.
func TestWaiterWithLaterDeadlineTouchesAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, time.Second)
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{TouchWait: time.Hour})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		var wg sync.WaitGroup
		var last time.Time
		for range 5 {
			time.Sleep(100 * time.Millisecond)
			last = time.Now()
			wg.Go(func() {
				if _, err := s.Get(t.Context(), "k"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		e := stored(t, under, "k")
		if want := session.Deadline(e.CreatedAt, instant(last)); e.ExpiresAt != want {
			t.Errorf("the last waiter was promised %v more than is stored", want.Sub(e.ExpiresAt))
		}
		if n := d.count("touch"); n > 5 {
			t.Errorf("%d touches for 5 reads", n)
		}
	})
}

// Promise 10.
func TestAdoption(t *testing.T) {
	for _, foreign := range []time.Duration{0, time.Minute, 1000 * time.Hour} {
		t.Run(fmt.Sprint("expiry in ", foreign), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Second)
				s := open(t, d, session, nil)
				for key, access := range map[string]func(string) error{
					"get":    func(k string) error { _, err := s.Get(t.Context(), k); return err },
					"touch":  func(k string) error { _, err := s.Touch(t.Context(), k); return err },
					"upsert": func(k string) error { return s.Upsert(t.Context(), k, 1) },
					"update": func(k string) error {
						_, err := s.Update(t.Context(), k, func(v int) (int, error) { return v, nil })
						return err
					},
					"multi": func(k string) error { _, err := s.GetMulti(t.Context(), []string{k}); return err },
				} {
					life := driver.Life{}
					if foreign != 0 {
						life.ExpiresAt = instant(time.Now().Add(foreign))
					}
					under.Plant(key, 1, life)
					if err := access(key); err != nil {
						t.Fatalf("%s: %v", key, err)
					}
					now := instant(time.Now())
					want := driver.Life{CreatedAt: now, ExpiresAt: now.Add(session.IdleGrace)}
					if e := stored(t, under, key); e.Life != want || e.Value != 1 {
						t.Errorf("%s: adopted as %+v, want %+v", key, e, want)
					}
				}
			})
		})
	}
}

// Promise 10: the other two ways.
func TestForeignRecords(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		under.Plant("k", 1, driver.Life{})
		for _, tt := range []struct {
			foreign slidingttl.Foreign
			read    error
		}{{slidingttl.ReadOnly, nil}, {slidingttl.Reject, slidingttl.ErrForeign}} {
			s := open(t, d, session, &slidingttl.Options[int]{Foreign: tt.foreign})
			_, err := s.Get(t.Context(), "k")
			_, perr := s.Peek(t.Context(), "k")
			_, merr := s.GetMulti(t.Context(), []string{"k"})
			for _, err := range []error{err, perr, merr} {
				if !errors.Is(err, tt.read) {
					t.Errorf("foreign %v: read says %v, want %v", tt.foreign, err, tt.read)
				}
			}
			_, terr := s.Touch(t.Context(), "k")
			_, uerr := s.Update(t.Context(), "k", func(v int) (int, error) { return v, nil })
			for _, err := range []error{terr, uerr, s.Upsert(t.Context(), "k", 2)} {
				wantErr(t, err, slidingttl.ErrForeign)
			}
			wantErr(t, s.Insert(t.Context(), "k", 2), slidingttl.ErrExists)
			if e := stored(t, under, "k"); e.Life != (driver.Life{}) || e.Value != 1 {
				t.Errorf("foreign %v: the record was written: %+v", tt.foreign, e)
			}
		}
	})
}

// Promise 11.
func TestCloseDrains(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		d.trip = 50 * time.Millisecond
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 2})
		fill(t, s, under, 100)
		must(t, s.Close(t.Context()))
		for i := range 100 {
			if e := stored(t, under, fmt.Sprint("k", i)); e.ExpiresAt < e.CreatedAt.Add(session.IdleGrace+time.Minute) {
				t.Fatalf("touch %d was not drained", i)
			}
		}
		for name, call := range map[string]func() error{
			"Get":      func() error { _, err := s.Get(t.Context(), "k0"); return err },
			"Entry":    func() error { _, err := s.Entry(t.Context(), "k0"); return err },
			"Peek":     func() error { _, err := s.Peek(t.Context(), "k0"); return err },
			"Touch":    func() error { _, err := s.Touch(t.Context(), "k0"); return err },
			"GetMulti": func() error { _, err := s.GetMulti(t.Context(), []string{"k0"}); return err },
			"Upsert":   func() error { return s.Upsert(t.Context(), "k0", 1) },
			"Insert":   func() error { return s.Insert(t.Context(), "k0", 1) },
			"Delete":   func() error { return s.Delete(t.Context(), "k0") },
			"Check":    func() error { return s.Check(t.Context()) },
			"Update": func() error {
				_, err := s.Update(t.Context(), "k0", func(v int) (int, error) { return v, nil })
				return err
			},
		} {
			if err := call(); !errors.Is(err, slidingttl.ErrClosed) {
				t.Errorf("%s on a closed store: %v", name, err)
			}
		}
		must(t, s.Close(t.Context()))
	})
}

// fill stores n records, lets a minute pass and reads them all, so that n touches
// are due and, in the background, wait.
func fill(t *testing.T, s *slidingttl.Store[int], under interface {
	Plant(string, int, driver.Life)
}, n int) {
	t.Helper()
	now := instant(time.Now())
	for i := range n {
		under.Plant(fmt.Sprint("k", i), i, driver.Life{CreatedAt: now, ExpiresAt: now.Add(session.IdleGrace)})
	}
	time.Sleep(time.Minute)
	for i := range n {
		if v, err := s.Get(t.Context(), fmt.Sprint("k", i)); v != i || err != nil {
			t.Fatalf("read %v, %v", v, err)
		}
	}
}

// Promise 11: Close gives up when its context ends, and says how much.
func TestCloseSaysWhatItGaveUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, time.Second)
			}
			return nil
		}
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 2})
		must(t, err)
		fill(t, s, under, 10)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		start := time.Now()
		err = s.Close(ctx)
		var drain *slidingttl.DrainError
		if !errors.As(err, &drain) || drain.Abandoned != 6 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close = %v, want 6 of 10 touches given up", err)
		}
		if d := time.Since(start); d != 2500*time.Millisecond {
			t.Errorf("Close took %v", d)
		}
	})
}

// Promise 11: no error text holds a key.
func TestKeysStayOutOfErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const key = "token-5f2a9c"
		d, under := newRemote[int](time.Second)
		s := open(t, d, session, &slidingttl.Options[int]{Strict: true, Foreign: slidingttl.Reject})
		var errs []error
		add := func(err error) { errs = append(errs, err) }
		_, err := s.Get(t.Context(), key)
		add(err)
		must(t, s.Insert(t.Context(), key, 1))
		add(s.Insert(t.Context(), key, 1))
		under.Plant(key+"-foreign", 1, driver.Life{})
		_, err = s.Get(t.Context(), key+"-foreign")
		add(err)
		time.Sleep(time.Minute)
		d.before = func(context.Context, string, string) error { return errDown }
		_, err = s.Get(t.Context(), key)
		add(err)
		_, err = s.Touch(t.Context(), key)
		add(err)
		add(s.Upsert(t.Context(), key, 1))
		for _, err := range errs {
			if err == nil || strings.Contains(err.Error(), "5f2a9c") {
				t.Errorf("error text: %v", err)
			}
		}
	})
}
