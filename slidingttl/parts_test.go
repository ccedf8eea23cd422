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

// slowly is a repository whose writes take a second.
type slowly struct{ profiles }

func (r slowly) Upsert(ctx context.Context, id int, v profile) error {
	time.Sleep(time.Second)
	return r.profiles.Upsert(ctx, id, v)
}

// Promise 11: Close waits for a call in all its parts.
func TestCloseWaitsForAllParts(t *testing.T) {
	t.Run("Wrapped.Upsert", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[profile](time.Second)
			s, err := slidingttl.New(d, session, nil)
			must(t, err)
			w, err := slidingttl.Wrap(slowly{profiles{under}}, s, profileKey, nil)
			must(t, err)
			saved := make(chan error, 1)
			go func() { saved <- w.Upsert(t.Context(), 1, profile{Name: "ann"}) }()
			time.Sleep(time.Millisecond)
			must(t, s.Close(t.Context()))
			must(t, <-saved)
			if e := stored(t, under, profileKey(1)); e.CreatedAt == 0 || e.ExpiresAt == 0 {
				t.Errorf("Close left a record with %+v", e.Life)
			}
		})
	})
	items := make([]slidingttl.Item[int], 100)
	for i := range items {
		items[i] = slidingttl.Item[int]{Key: fmt.Sprint(i), Value: i}
	}
	t.Run("UpsertMulti", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[int](time.Millisecond)
			d.trip = 10 * time.Millisecond
			s, err := slidingttl.New(d, session, nil)
			must(t, err)
			written := make(chan error, 1)
			go func() { written <- s.UpsertMulti(t.Context(), items) }()
			time.Sleep(50 * time.Millisecond)
			must(t, s.Close(t.Context()))
			must(t, <-written)
			for _, i := range items {
				stored(t, under, i.Key)
			}
		})
	})
	t.Run("UpsertMulti, given up", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			d, _ := newRemote[int](time.Millisecond)
			d.trip = 10 * time.Millisecond
			s, err := slidingttl.New(d, session, nil)
			must(t, err)
			written := make(chan error, 1)
			go func() { written <- s.UpsertMulti(t.Context(), items) }()
			time.Sleep(50 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			var drain *slidingttl.DrainError
			if err := s.Close(ctx); !errors.As(err, &drain) || drain.Calls != 1 {
				t.Errorf("Close: %v, want one call given up", err)
			}
			var failed slidingttl.KeyErrors
			if err := <-written; !errors.As(err, &failed) || !errors.Is(err, slidingttl.ErrClosed) {
				t.Errorf("UpsertMulti: %v, want ErrClosed of some", err)
			}
			if n := d.count("insert"); n > 60 || n+len(failed) != 100 {
				t.Errorf("%d written and %d failed", n, len(failed))
			}
		})
	})
	t.Run("GetOrInsert", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			d, _ := newRemote[int](time.Millisecond)
			s, err := slidingttl.New(d, session, nil)
			must(t, err)
			got := make(chan error, 1)
			go func() {
				_, _, err := s.GetOrInsert(t.Context(), "k", func(context.Context) (int, error) { time.Sleep(time.Second); return 1, nil })
				got <- err
			}()
			time.Sleep(time.Millisecond)
			must(t, s.Close(t.Context()))
			must(t, <-got)
		})
	})
}

// A touch that is found due after Close has given up is counted, and not sent.
func TestTouchAfterCloseGaveUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s, err := slidingttl.New(d, session, nil)
		must(t, err)
		plant(under, "k", time.Minute)
		d.after = func(op, _ string) {
			if op == "get" {
				time.Sleep(time.Second)
			}
		}
		got := make(chan error, 1)
		go func() { _, err := s.Get(t.Context(), "k"); got <- err }()
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var drain *slidingttl.DrainError
		if err := s.Close(ctx); !errors.As(err, &drain) || drain.Calls != 1 {
			t.Errorf("Close: %v, want one call given up", err)
		}
		must(t, <-got)
		if st := s.Stats(); d.count("touch") != 0 || st.TouchFails != 1 || st.Due != 1 || st.Broken < 25*time.Minute {
			t.Errorf("%d touches sent, %+v", d.count("touch"), st)
		}
	})
}

// Promise 11: a panic of a policy function is an error of that call, or of that record, also if the
// touch has waited and runs on its own goroutine.
func TestPolicyPanicEndsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		var bad atomic.Bool
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 1, PolicyFor: func(key string) slidingttl.Policy {
			if bad.Load() && key == "k" {
				panic("boom")
			}
			return session
		}})
		for _, key := range []string{"busy", "k"} {
			must(t, s.Insert(t.Context(), key, 1))
		}
		time.Sleep(time.Minute)
		held := once("touch", func() { time.Sleep(4 * time.Second) })
		d.before = func(_ context.Context, op, _ string) error { held(op); return nil }
		for _, key := range []string{"busy", "k"} {
			read(t, s, key)
			time.Sleep(time.Millisecond)
		}
		bad.Store(true)
		time.Sleep(10 * time.Second)
		if st := s.Stats(); st.TouchFails != 1 || st.Touched != 1 || st.HookPanics == 0 || st.Pending != 0 {
			t.Errorf("%+v", st)
		}
		err := s.UpsertMulti(t.Context(), []slidingttl.Item[int]{{Key: "a", Value: 1}, {Key: "k", Value: 2}})
		var failed slidingttl.KeyErrors
		var p *slidingttl.PanicError
		if !errors.As(err, &failed) || len(failed) != 1 || failed[0].Index != 1 || !errors.As(err, &p) {
			t.Errorf("UpsertMulti: %v, want the panic of item 1", err)
		}
		read(t, s, "a")
		bad.Store(false)
	})
}

// A read returns not found if its own touch has found that the record is gone.
func TestReadSaysWhatItsTouchLearned(t *testing.T) {
	for name, get := range map[string]func(context.Context, *slidingttl.Store[int]) error{
		"Get":   func(ctx context.Context, s *slidingttl.Store[int]) error { _, err := s.Get(ctx, "k"); return err },
		"Entry": func(ctx context.Context, s *slidingttl.Store[int]) error { _, err := s.Entry(ctx, "k"); return err },
		"Keep":  func(ctx context.Context, s *slidingttl.Store[int]) error { return s.Keep(ctx, "k") },
		"GetMulti": func(ctx context.Context, s *slidingttl.Store[int]) error {
			m, err := s.GetMulti(ctx, []string{"k", "l"})
			if err == nil && len(m) == 1 {
				err = slidingttl.ErrNotFound
			}
			return err
		},
	} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", strict ", strict), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					d, under := newRemote[int](time.Millisecond)
					s := open(t, d, session, &slidingttl.Options[int]{Strict: strict})
					for _, key := range []string{"k", "l"} {
						plant(under, key, time.Minute)
					}
					d.before = func(ctx context.Context, op, key string) error {
						if op == "touch" && key == "k" {
							return under.Delete(ctx, key)
						}
						return nil
					}
					wantErr(t, get(t.Context(), s), slidingttl.ErrNotFound)
				})
			})
		}
	}
}

// TouchEntry of a record without created_at does not change the one that replaced it.
func TestTouchEntryLeavesASuccessorAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		under.Plant("k", 1, driver.Life{})
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		for _, life := range []driver.Life{{}, {CreatedAt: instant(time.Now()), ExpiresAt: instant(time.Now().Add(time.Minute))}} {
			under.Plant("k", 2, life)
			got, err := s.TouchEntry(t.Context(), "k", e)
			must(t, err)
			if now := stored(t, under, "k"); got != e || now.Life != life {
				t.Errorf("returned %+v, stored is %+v, want %+v", got, now.Life, life)
			}
		}
	})
}

// The store does not report a key that it has deleted as alive, whatever a read saw meanwhile.
func TestKeepKnowsOfADelete(t *testing.T) {
	for name, remove := range map[string]func(context.Context, *slidingttl.Store[int], slidingttl.Entry[int]) error{
		"Delete": func(ctx context.Context, s *slidingttl.Store[int], _ slidingttl.Entry[int]) error {
			return s.Delete(ctx, "k")
		},
		"DeleteEntry": func(ctx context.Context, s *slidingttl.Store[int], e slidingttl.Entry[int]) error {
			return s.DeleteEntry(ctx, "k", e)
		},
		"Retire": func(ctx context.Context, s *slidingttl.Store[int], _ slidingttl.Entry[int]) error {
			return s.Retire(ctx, "k")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s := open(t, d, withSlack(session, 10*time.Minute), nil)
				plant(under, "k", 35*time.Minute)
				e, err := s.Peek(t.Context(), "k")
				must(t, err)
				writes := func(op string) bool { return op == "delete" || op == "touch" }
				d.before = func(ctx context.Context, op, _ string) error {
					if writes(op) {
						_, err := s.Get(ctx, "k") // which remembers it
						must(t, err)
					}
					return nil
				}
				d.after = func(op, _ string) {
					if writes(op) && name != "Retire" {
						time.Sleep(time.Second)
						wantErr(t, s.Keep(t.Context(), "k"), slidingttl.ErrNotFound)
					}
				}
				must(t, remove(t.Context(), s, e))
				time.Sleep(time.Millisecond)
				wantErr(t, s.Keep(t.Context(), "k"), slidingttl.ErrNotFound)
			})
		})
	}
}
