package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var account = slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour, Slack: 3 * 24 * time.Hour}

// wrapped returns a wrapped repository that has known a record for 81 days.
func wrapped(t *testing.T) (*slidingttl.Wrapped[int, profile, profile], profiles) {
	t.Helper()
	d, under := newRemote[profile](time.Second)
	repo := profiles{under}
	w, err := slidingttl.Wrap(repo, open(t, d, account, nil), profileKey, nil)
	must(t, err)
	must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
	for range 81 {
		time.Sleep(24 * time.Hour)
		_, err := w.Get(t.Context(), 1)
		must(t, err)
	}
	return w, repo
}

// Promise 5: a remembered record does not give a new one its created_at.
func TestWrapGivesANewRecordNoOldLife(t *testing.T) {
	for name, between := range map[string]func(*testing.T, *slidingttl.Wrapped[int, profile, profile]){
		"deleted elsewhere": func(*testing.T, *slidingttl.Wrapped[int, profile, profile]) {},
		"deleted and missed": func(t *testing.T, w *slidingttl.Wrapped[int, profile, profile]) {
			_, err := w.Get(t.Context(), 1)
			wantErr(t, err, errNoProfile)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, repo := wrapped(t)
				must(t, repo.records.Delete(t.Context(), profileKey(1)))
				between(t, w)
				must(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}))
				now := instant(time.Now())
				if e := stored(t, driver.Driver[profile](repo.records), profileKey(1)); now.Sub(e.CreatedAt) > time.Second {
					t.Errorf("a record made now is %v old", now.Sub(e.CreatedAt))
				}
				for range 9 { // to the cap of the first record
					time.Sleep(24 * time.Hour)
					if _, err := w.Get(t.Context(), 1); err != nil {
						t.Fatalf("gone after %v: %v", instant(time.Now()).Sub(now), err)
					}
				}
			})
		})
	}
}

// Promise 5: a key just read as absent is not remembered as foreign.
func TestUpsertForgetsAForeignRecordThatIsGone(t *testing.T) {
	for name, between := range map[string]func(context.Context, *slidingttl.Store[int]) error{
		"after Get": func(ctx context.Context, s *slidingttl.Store[int]) error {
			_, err := s.Get(ctx, "k")
			return err
		},
		"after GetMulti": func(ctx context.Context, s *slidingttl.Store[int]) error {
			m, err := s.GetMulti(ctx, []string{"k"})
			if err == nil && len(m) == 0 {
				err = slidingttl.ErrNotFound
			}
			return err
		},
		"at once": func(context.Context, *slidingttl.Store[int]) error { return slidingttl.ErrNotFound },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s := open(t, d, session, &slidingttl.Options[int]{Foreign: slidingttl.ReadOnly})
				under.Plant("k", 1, driver.Life{})
				_, err := s.Get(t.Context(), "k")
				must(t, err)
				must(t, under.Delete(t.Context(), "k"))
				wantErr(t, between(t.Context(), s), slidingttl.ErrNotFound)
				if err := s.Upsert(t.Context(), "k", 2); err != nil {
					t.Errorf("upsert of an absent key: %v", err)
				}
			})
		})
	}
}

// Promise 5: a record that a read has found gone is not remembered.
func TestKeepKnowsWhatAReadMissed(t *testing.T) {
	for name, miss := range map[string]func(context.Context, *slidingttl.Store[int]) error{
		"Get":  func(ctx context.Context, s *slidingttl.Store[int]) error { _, err := s.Get(ctx, "k"); return err },
		"Peek": func(ctx context.Context, s *slidingttl.Store[int]) error { _, err := s.Peek(ctx, "k"); return err },
		"GetMulti": func(ctx context.Context, s *slidingttl.Store[int]) error {
			m, err := s.GetMulti(ctx, []string{"k"})
			if err == nil && len(m) == 0 {
				err = slidingttl.ErrNotFound
			}
			return err
		},
		"Update": func(ctx context.Context, s *slidingttl.Store[int]) error {
			_, err := s.Update(ctx, "k", func(v int) (int, error) { return v, nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s := open(t, d, withSlack(session, 3*time.Minute), nil)
				must(t, s.Insert(t.Context(), "k", 1))
				must(t, under.Delete(t.Context(), "k"))
				wantErr(t, miss(t.Context(), s), slidingttl.ErrNotFound)
				wantErr(t, s.Keep(t.Context(), "k"), slidingttl.ErrNotFound)
			})
		})
	}
}

// Promise 5: a slow read's record is not remembered if the record was found gone meanwhile.
func TestKeepIsNotMisledByASlowRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, account, nil)
		must(t, open(t, under, account, nil).Insert(t.Context(), "k", 1))
		slow := once("get", func() { time.Sleep(time.Minute) })
		d.after = func(op, _ string) { slow(op) }
		first := make(chan error, 1)
		go func() { _, err := s.Get(t.Context(), "k"); first <- err }()
		time.Sleep(time.Second)
		must(t, under.Delete(t.Context(), "k"))
		_, err := s.Get(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
		must(t, <-first)
		wantErr(t, s.Keep(t.Context(), "k"), slidingttl.ErrNotFound)
	})
}

// Promise 5: nor is the record of a touch whose answer was slow.
func TestKeepIsNotMisledByASlowTouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, account, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(4 * 24 * time.Hour)
		slow := once("touch", func() { time.Sleep(2 * time.Second) })
		d.after = func(op, _ string) { slow(op) }
		_, err := s.Get(t.Context(), "k")
		must(t, err)
		must(t, under.Delete(t.Context(), "k"))
		_, err = s.Get(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
		time.Sleep(time.Minute)
		wantErr(t, s.Keep(t.Context(), "k"), slidingttl.ErrNotFound)
	})
}

// Insert and Upsert never return ErrNotFound.
func TestWritesNeverAnswerNotFound(t *testing.T) {
	pastCap := func() driver.Life {
		now := instant(time.Now())
		return driver.Life{CreatedAt: now.Add(-2 * session.MaxLifetime), ExpiresAt: now.Add(time.Hour)}
	}
	for name, policyOf := range map[string]func(int) slidingttl.Policy{"one policy": nil, "PolicyOf": byKind} {
		t.Run("Insert, "+name, func(t *testing.T) {
			for _, at := range []string{"get", "replace"} {
				bubble(t, func(t *testing.T) {
					d, under := newRemote[int](time.Millisecond)
					s := open(t, d, session, &slidingttl.Options[int]{PolicyOf: policyOf})
					under.Plant("k", brief, pastCap())
					gone := once(at, func() { must(t, under.Delete(t.Context(), "k")) })
					d.before = func(_ context.Context, op, _ string) error { gone(op); return nil }
					if err := s.Insert(t.Context(), "k", brief); err != nil {
						t.Errorf("deleted before the %s: %v", at, err)
					}
				})
			}
		})
		t.Run("Upsert, "+name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s := open(t, d, session, &slidingttl.Options[int]{PolicyOf: policyOf})
				d.before = func(_ context.Context, op, _ string) error {
					switch op {
					case "insert":
						now := instant(time.Now())
						under.Plant("k", brief, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)})
					case "replace":
						must(t, under.Delete(t.Context(), "k"))
					}
					return nil
				}
				err := s.Upsert(t.Context(), "k", brief)
				wantErr(t, err, slidingttl.ErrConflict)
				if errors.Is(err, slidingttl.ErrNotFound) {
					t.Error(err)
				}
			})
		})
	}
}

// A dead foreign record is dead first and foreign second.
func TestDeadForeignRecordIsNoError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Foreign: slidingttl.Reject})
		under.Plant("k", 1, driver.Life{ExpiresAt: instant(time.Now()) - 1})
		if m, err := s.PeekMulti(t.Context(), []string{"k"}); len(m) != 0 || err != nil {
			t.Errorf("PeekMulti: %v, %v", m, err)
		}
		if m, err := s.GetMulti(t.Context(), []string{"k"}); len(m) != 0 || err != nil {
			t.Errorf("GetMulti: %v, %v", m, err)
		}
	})
}

// A merge in the queue keeps the touch of the record that lives.
func TestQueueMergeKeepsTheLivingGeneration(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 1})
		must(t, s.Insert(t.Context(), "busy", 1))
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		held := once("touch", func() { time.Sleep(10 * time.Second) })
		d.before = func(_ context.Context, op, _ string) error { held(op); return nil }
		slow := once("get", func() { time.Sleep(5 * time.Second) })
		var armed atomic.Bool
		d.after = func(op, _ string) {
			if armed.Load() {
				slow(op)
			}
		}
		_, err := s.Get(t.Context(), "busy")
		must(t, err)

		armed.Store(true)
		old := make(chan error, 1)
		go func() { _, err := s.Get(t.Context(), "k"); old <- err }() // reads the first record
		time.Sleep(time.Second)
		born := instant(time.Now())
		under.Plant("k", 2, driver.Life{CreatedAt: born, ExpiresAt: born.Add(session.IdleGrace)})
		time.Sleep(time.Second)
		_, err = s.Get(t.Context(), "k") // the second waits behind busy
		must(t, err)
		promised := instant(time.Now()).Add(session.IdleGrace)
		must(t, <-old)
		time.Sleep(time.Minute)
		if e := stored(t, under, "k"); e.ExpiresAt < promised {
			t.Errorf("expires %v before the deadline that was promised", promised.Sub(e.ExpiresAt))
		}
	})
}

// A record written at the Unix epoch is the store's own.
func TestEpochIsNoForeigner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{
			Foreign: slidingttl.Reject,
			Now:     func() time.Time { return time.Unix(0, 0) },
		})
		if err := s.Insert(t.Context(), "k", 1); err != nil {
			wantErr(t, err, slidingttl.ErrInvalid) // to refuse such a clock is as good
			return
		}
		if _, err := s.Get(t.Context(), "k"); err != nil {
			t.Errorf("just inserted: %v", err)
		}
	})
}

// The store remembers as many keys as Options.Remember says, except for those that share a slot.
func TestRememberIsTheNumberOfKeys(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		for _, n := range []int{100, 10_000} {
			d, _ := newRemote[int](time.Millisecond)
			s := open(t, d, withSlack(session, 10*time.Minute), &slidingttl.Options[int]{Remember: n})
			for i := range n {
				must(t, s.Insert(t.Context(), fmt.Sprint(i), i))
			}
			d.counts()
			for i := range n {
				must(t, s.Keep(t.Context(), fmt.Sprint(i)))
			}
			if reads := d.count("get"); reads > n/2 {
				t.Errorf("Keep reads %d of %d keys", reads, n)
			}
		}
	})
}

// What the repository says is gone is no longer remembered.
func TestRepositorysErrorForgetsTheKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		s := open(t, d, withSlack(session, 10*time.Minute), nil)
		w, err := slidingttl.Wrap(profiles{under}, s, profileKey, nil)
		must(t, err)
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		must(t, s.Keep(t.Context(), profileKey(1)))
		must(t, under.Delete(t.Context(), profileKey(1))) // by another program
		_, err = w.Get(t.Context(), 1)
		wantErr(t, err, errNoProfile)
		wantErr(t, s.Keep(t.Context(), profileKey(1)), slidingttl.ErrNotFound)
	})
}

// What a write stored needs no read, also where its plan was made after a trip.
func TestKeepAfterAWriteThatLookedFirst(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, s, other *slidingttl.Store[int]) error{
		"Insert": func(ctx context.Context, s, _ *slidingttl.Store[int]) error { return s.Insert(ctx, "new", 1) },
		"Upsert": func(ctx context.Context, s, _ *slidingttl.Store[int]) error { return s.Upsert(ctx, "k", 2) },
		"Update": func(ctx context.Context, s, other *slidingttl.Store[int]) error {
			_, err := s.Update(ctx, "k", func(v int) (int, error) { return v + 1, other.Keep(ctx, "k") })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				d.trip = 10 * time.Millisecond
				p, key := withSlack(session, 3*time.Minute), "k"
				s, other := open(t, d, p, nil), open(t, d, p, nil)
				if name == "Insert" {
					key = "new"
				}
				plant(under, "k", 10*time.Minute)
				must(t, write(t.Context(), s, other))
				d.counts()
				must(t, s.Keep(t.Context(), key))
				if calls := d.counts(); len(calls) > 0 {
					t.Errorf("Keep makes %v", calls)
				}
			})
		})
	}
}
