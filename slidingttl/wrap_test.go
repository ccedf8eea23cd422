package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

type profile struct {
	Name    string
	Created time.Time
}

var errNoProfile = errors.New("no such profile")

// profiles is a typical existing repository: it does not know about expiry, and its upsert removes
// whatever is stored beside the value.
type profiles struct{ records *hoard[profile] }

func profileKey(id int) string { return fmt.Sprint("profile:", id) }

func (p profiles) Get(ctx context.Context, id int) (profile, error) {
	e, err := p.records.Get(ctx, profileKey(id))
	if errors.Is(err, driver.ErrNotFound) {
		err = errNoProfile
	}
	return e.Value, err
}

func (p profiles) Upsert(_ context.Context, id int, v profile) error {
	p.records.Plant(profileKey(id), v, driver.Life{})
	return nil
}

func TestWrap(t *testing.T) {
	for name, createdAt := range map[string]func(profile) time.Time{
		"created_at from the store": nil,
		"created_at from the value": func(p profile) time.Time { return p.Created },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[profile](time.Second)
				s := open(t, d, withSlack(session, 3*time.Minute), nil)
				w, err := slidingttl.Wrap(profiles{under}, s, profileKey, &slidingttl.WrapOptions[profile]{CreatedAt: createdAt})
				must(t, err)
				var repo slidingttl.Repository[int, profile] = w // the same shape

				_, err = repo.Get(t.Context(), 1)
				wantErr(t, err, errNoProfile)
				born := time.Now()
				must(t, repo.Upsert(t.Context(), 1, profile{"ann", born}))
				for time.Since(born) < session.MaxLifetime-20*time.Minute {
					time.Sleep(20 * time.Minute)
					if time.Since(born)%time.Hour == 0 {
						must(t, repo.Upsert(t.Context(), 1, profile{"ann", born}))
					}
					v, err := repo.Get(t.Context(), 1)
					must(t, err)
					if v.Name != "ann" {
						t.Fatalf("read %+v", v)
					}
					if e := stored(t, under, profileKey(1)); e.CreatedAt != instant(born) {
						t.Fatalf("created_at is off by %v", e.CreatedAt.Sub(instant(born)))
					}
				}
				time.Sleep(20 * time.Minute)
				_, err = repo.Get(t.Context(), 1)
				wantErr(t, err, slidingttl.ErrNotFound)

				must(t, repo.Upsert(t.Context(), 2, profile{"bob", time.Now()}))
				d.counts()
				for range 10 {
					_, err = repo.Get(t.Context(), 2)
					must(t, err)
				}
				if n := d.counts(); len(n) != 0 {
					t.Errorf("reads whose touch is not due cost %v", n)
				}
				time.Sleep(session.IdleGrace + 3*time.Minute + time.Second)
				_, err = repo.Get(t.Context(), 2)
				wantErr(t, err, slidingttl.ErrNotFound)
			})
		})
	}
}

// A save by a process whose clock is behind, or that does not use grown slack, must not shorten the
// life that other processes have given.
func TestWrapKeepsTheLongerExpiry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, under := newRemote[profile](time.Second)
		behind := func() time.Time { return time.Now().Add(-time.Minute) }
		tight := session
		tight.IdleGrace /= 3
		var all []*slidingttl.Wrapped[int, profile, profile]
		for _, s := range []*slidingttl.Store[profile]{
			open(t, under, session, nil),
			open(t, under, session, &slidingttl.Options[profile]{Now: behind}),
			open(t, under, tight, nil),
		} {
			w, err := slidingttl.Wrap(profiles{under}, s, profileKey, nil)
			must(t, err)
			all = append(all, w)
		}
		must(t, all[0].Upsert(t.Context(), 1, profile{Name: "ann"}))
		first := stored(t, under, profileKey(1))
		must(t, all[1].Upsert(t.Context(), 1, profile{Name: "ann2"}))
		if e := stored(t, under, profileKey(1)); e.Life != first.Life {
			t.Errorf("a save by a slow clock makes %+v of %+v", e.Life, first.Life)
		}
		must(t, all[2].Upsert(t.Context(), 1, profile{Name: "ann3"}))
		if e, want := stored(t, under, profileKey(1)), instant(time.Now().Add(tight.IdleGrace).Add(time.Minute)); e.ExpiresAt > want.Add(3*time.Second) || e.ExpiresAt < want.Add(-3*time.Second) {
			t.Errorf("a save under a tighter policy leaves the expiry %v from its deadline and MaxSkew", e.ExpiresAt.Sub(want))
		}
	})
}

func TestWrapFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Second)
		hooked := 0
		s := open(t, d, session, &slidingttl.Options[profile]{
			OnTouchError: func(context.Context, string, error) { hooked++ },
		})
		w, err := slidingttl.Wrap(profiles{under}, s, profileKey, nil)
		must(t, err)
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		time.Sleep(time.Minute)
		d.before = func(context.Context, string, string) error { return errDown }
		v, err := w.Get(t.Context(), 1)
		synctest.Wait() // the hook has run
		if v.Name != "ann" || err != nil || hooked != 1 {
			t.Errorf("the read does not stand: %v, %v; hook called %d times", v, err, hooked)
		}
		d.before = func(_ context.Context, op, _ string) error {
			if op == "touch" {
				return errDown
			}
			return nil
		}
		err = w.Upsert(t.Context(), 1, profile{Name: "ann2"})
		var wrapped *slidingttl.Error
		if !errors.As(err, &wrapped) || wrapped.Op != "touch" || !errors.Is(err, errDown) {
			t.Errorf("Upsert: %v, want the touch's failure", err)
		}
		d.before = nil
		if v, err := w.Get(t.Context(), 1); v.Name != "ann2" || err != nil {
			t.Errorf("after the failure: %v, %v", v, err)
		}
		time.Sleep(2 * time.Second) // the touch that failed rests
		if e := stored(t, under, profileKey(1)); e.ExpiresAt == 0 {
			t.Errorf("the next access did not mend the expiry")
		}

		for _, bad := range []func() error{
			func() error {
				_, err := slidingttl.Wrap[int, profile, profile](nil, s, profileKey, nil)
				return err
			},
			func() error {
				_, err := slidingttl.Wrap[int, profile, profile](profiles{under}, nil, profileKey, nil)
				return err
			},
			func() error { _, err := slidingttl.Wrap(profiles{under}, s, nil, nil); return err },
		} {
			wantErr(t, bad(), slidingttl.ErrInvalid)
		}
	})
}

func TestWrapInBackground(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Second)
		d.trip = 50 * time.Millisecond
		s := open(t, d, session, &slidingttl.Options[profile]{Touches: slidingttl.Background})
		w, err := slidingttl.Wrap(profiles{under}, s, profileKey, nil)
		must(t, err)
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		time.Sleep(time.Minute)
		start := time.Now()
		_, err = w.Get(t.Context(), 1)
		must(t, err)
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("Get took %v, want one trip to learn the expiry", took)
		}
		time.Sleep(time.Second)
		if n := s.Stats().Touched; n != 2 {
			t.Errorf("%d touches, want 2", n)
		}
	})
}

// Promise 4: of two saves of an id that overlap, neither loses the created_at that its value tells.
func TestTwoSavesKeepCreatedAt(t *testing.T) {
	for gap := time.Duration(0); gap <= 6*time.Millisecond; gap += time.Millisecond / 2 {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[profile](time.Millisecond)
			d.trip = time.Millisecond
			born := time.Now()
			opts := &slidingttl.WrapOptions[profile]{CreatedAt: func(p profile) time.Time { return p.Created }}
			w, err := slidingttl.Wrap(profiles{under}, open(t, d, session, nil), profileKey, opts)
			must(t, err)
			must(t, w.Upsert(t.Context(), 1, profile{"ann", born}))
			time.Sleep(10 * time.Minute)
			var saves sync.WaitGroup
			for i := range 2 {
				saves.Go(func() {
					time.Sleep(time.Duration(i) * gap)
					if err := w.Upsert(t.Context(), 1, profile{fmt.Sprint(i), born}); err != nil {
						t.Error(err)
					}
				})
			}
			saves.Wait()
			if e := stored(t, under, profileKey(1)); e.CreatedAt != instant(born) {
				t.Errorf("two saves %v apart moved created_at by %v", gap, e.CreatedAt.Sub(instant(born)))
			}
		})
	}
}
