package slidingttl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// wrapOver returns a wrapper of profiles over d's records, as another process has it.
func wrapOver(t *testing.T, d driver.Driver[profile], repo slidingttl.Repository[int, profile], opts *slidingttl.Options[profile], told bool) (*slidingttl.Store[profile], *slidingttl.Wrapped[int, profile, profile]) {
	t.Helper()
	s := open(t, d, session, opts)
	var o slidingttl.WrapOptions[profile]
	if told {
		o.CreatedAt = func(p profile) time.Time { return p.Created }
	}
	w, err := slidingttl.Wrap(repo, s, profileKey, &o)
	must(t, err)
	return s, w
}

// keepToTheCap reads profile 1, born then, until it has less than a step to live.
func keepToTheCap(t *testing.T, w *slidingttl.Wrapped[int, profile, profile], born time.Time) {
	t.Helper()
	for time.Since(born) < session.MaxLifetime-20*time.Minute {
		time.Sleep(20 * time.Minute)
		_, err := w.Get(t.Context(), 1)
		must(t, err)
	}
}

// A save's touch that is tried again leaves alone what another process has saved meanwhile.
func TestLateTouchOfASaveLeavesItsSuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		fail := failTouches(d, all)
		_, mine := wrapOver(t, d, profiles{under}, nil, true)
		_, others := wrapOver(t, over(under), profiles{under}, nil, true)
		born := time.Now()
		time.Sleep(session.MaxLifetime - 2*time.Second)
		fail(true)
		wantErr(t, mine.Upsert(t.Context(), 1, profile{"old", born}), errDown)
		must(t, mine.Delete(t.Context(), 1))
		reborn := time.Now()
		must(t, profiles{under}.Upsert(t.Context(), 1, profile{"new", reborn}))
		fail(false)
		time.Sleep(10 * time.Second)
		if e := stored(t, under, profileKey(1)); e.CreatedAt != 0 {
			t.Errorf("the record that nobody has read has created_at %v before it was saved", reborn.Sub(e.CreatedAt.Time()))
		}
		must(t, others.Upsert(t.Context(), 1, profile{"new", reborn}))
		if e := stored(t, under, profileKey(1)); e.CreatedAt != instant(reborn) {
			t.Errorf("created_at is %v before the value's", reborn.Sub(e.CreatedAt.Time()))
		}
	})
}

// A touch of another program's record leaves alone what that program has written in its place.
func TestLateTouchOfAForeignRecordLeavesItsSuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		fail := failTouches(d, all)
		fail(true)
		s := open(t, d, session, nil)
		under.Plant("k", 1, driver.Life{})
		read(t, s, "k")
		time.Sleep(20 * time.Minute)
		life := driver.Life{ExpiresAt: instant(time.Now().Add(2 * time.Hour))}
		under.Plant("k", 2, life)
		fail(false)
		time.Sleep(time.Minute)
		if e := stored(t, under, "k"); e.Life != life {
			t.Errorf("the life of a record that nobody has read is %+v", e.Life)
		}
	})
}

// A record whose first touch comes later than the idle grace lives from its access on.
func TestLateFirstTouch(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		fail := failTouches(d, all)
		fail(true)
		s := open(t, d, session, nil)
		under.Plant("k", 1, driver.Life{})
		first := time.Now()
		read(t, s, "k")
		time.Sleep(2 * session.IdleGrace)
		fail(false)
		time.Sleep(time.Minute)
		e := stored(t, under, "k")
		if created := e.CreatedAt.Time().Sub(first); created < 0 || created > time.Second {
			t.Errorf("created_at is %v after the first access", created)
		}
		if left := time.Until(e.ExpiresAt.Time()); left < session.IdleGrace-2*time.Minute {
			t.Errorf("%v are left", left)
		}
	})
}

// A save that is made again after its touch failed continues the life before both.
func TestSaveAgainAfterItsTouchFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		fail := failTouches(d, all)
		_, w := wrapOver(t, d, profiles{under}, nil, false)
		born := time.Now()
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		time.Sleep(20 * time.Minute)
		fail(true)
		wantErr(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}), errDown)
		wantErr(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}), errDown)
		fail(false)
		must(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}))
		if e := stored(t, under, profileKey(1)); e.CreatedAt != instant(born) {
			t.Errorf("created_at has moved by %v", e.CreatedAt.Sub(instant(born)))
		}
	})
}

// An insert begins a new life, also where the record before it was there when it began.
func TestWrappedInsertBeginsALife(t *testing.T) {
	for _, foreign := range []slidingttl.Foreign{slidingttl.Adopt, slidingttl.ReadOnly, slidingttl.Reject} {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[profile](time.Millisecond)
			_, w := wrapOver(t, d, inserting{profiles{under}}, &slidingttl.Options[profile]{Foreign: foreign}, false)
			must(t, w.Insert(t.Context(), 1, profile{Name: "ann"}))
			time.Sleep(20 * time.Minute)
			reborn := time.Now()
			must(t, w.Insert(t.Context(), 1, profile{Name: "bob"})) // another process has just deleted the first
			if e := stored(t, under, profileKey(1)); e.CreatedAt.Time().Before(reborn) {
				t.Errorf("Foreign %d: created_at is %v before the insert", foreign, reborn.Sub(e.CreatedAt.Time()))
			}
		})
	}
}

type inserting struct{ profiles }

func (i inserting) Insert(ctx context.Context, id int, v profile) error { return i.Upsert(ctx, id, v) }

// Whether a record that is remembered with a cap that has passed still lives is not answered by yes
// while its life cannot be read.
func TestWrappedGetPastTheCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		s, w := wrapOver(t, d, profiles{under}, nil, false)
		born := time.Now()
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		keepToTheCap(t, w, born)
		d.before = func(context.Context, string, string) error { return errDown }
		for time.Since(born) < 2*session.MaxLifetime {
			time.Sleep(20 * time.Minute)
			_, err := w.Get(t.Context(), 1)
			if past := time.Since(born) >= session.MaxLifetime; past != errors.Is(err, errDown) || past != errors.Is(s.Keep(t.Context(), profileKey(1)), errDown) {
				t.Fatalf("Get at %v: %v", time.Since(born), err)
			}
		}
	})
}

// Touches of callers that have left are bounded by key, as those of reads are.
func TestPendingTouchesOfCallersThatLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return hangs(ctx)
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{TouchTimeout: time.Hour})
		for i := range 100 {
			under.Plant("k", i, driver.Life{}) // another record each time
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, err := s.Touch(ctx, "k")
			cancel()
			wantErr(t, err, context.DeadlineExceeded)
		}
		if n := s.Stats().Pending; n > 10 {
			t.Errorf("%d touches of one key are pending", n)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
}

// A save that is made again while the first one's touch runs continues the life before both.
func TestSaveAgainWhileItsTouchRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		_, w := wrapOver(t, d, profiles{under}, nil, false)
		born := time.Now()
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		time.Sleep(20 * time.Minute)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, 2*time.Second)
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, w.Upsert(ctx, 1, profile{Name: "bob"}), context.DeadlineExceeded)
		must(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}))
		if e := stored(t, under, profileKey(1)); e.CreatedAt != instant(born) {
			t.Errorf("created_at has moved by %v", e.CreatedAt.Sub(instant(born)))
		}
	})
}

// Where a record has no version a late touch could not tell it from the next one: a deletion ends it.
func TestDeleteEndsTouchesOfTheUnborn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := newFlat[profile]()
		d := over[profile](under)
		fail := failTouches(d, all)
		fail(true)
		s, w := wrapOver(t, d, flatProfiles{under}, nil, false)
		for _, end := range []func() error{
			func() error { return w.Delete(t.Context(), 1) },
			func() error { return s.Delete(t.Context(), profileKey(1)) },
		} {
			wantErr(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}), errDown)
			must(t, end())
			if st := s.Stats(); st.Pending != 0 || st.Shed != 0 {
				t.Errorf("%d touches are pending, %d shed", st.Pending, st.Shed)
			}
		}
	})
}

// A touch is not given up while the record that it reads lives, whatever was read at first.
func TestTouchOfWhatOthersKeepAlive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		fail := failTouches(d, all)
		s := open(t, d, slidingttl.Policy{IdleGrace: 5 * time.Minute, MaxLifetime: 12 * time.Hour, Promote: true}, nil)
		born := time.Now()
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(4*time.Minute + 30*time.Second)
		fail(true)
		read(t, s, "k")
		time.Sleep(20 * time.Second)
		must(t, s.Upsert(t.Context(), "k", 2))
		time.Sleep(time.Minute)
		fail(false)
		time.Sleep(time.Minute)
		if e := stored(t, under, "k"); e.ExpiresAt != instant(born.Add(12*time.Hour)) {
			t.Errorf("it expires after %v", e.ExpiresAt.Sub(instant(born)))
		}
	})
}

// A read that waits behind a TouchEntry is touched, also where another process adopts the record meanwhile.
func TestReadBehindATouchEntry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		other := open(t, under, slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: 12 * time.Hour}, nil)
		under.Plant("k", 1, driver.Life{})
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		slow := once("touch", func() {
			time.Sleep(time.Second)
			_, err := other.Get(t.Context(), "k") // which adopts it
			must(t, err)
		})
		d.before = func(_ context.Context, op, _ string) error { slow(op); return nil }
		go func() { _, _ = s.TouchEntry(t.Context(), "k", e) }()
		time.Sleep(900 * time.Millisecond)
		deadline := time.Now().Add(session.IdleGrace)
		read(t, s, "k")
		time.Sleep(10 * time.Second)
		if e := stored(t, under, "k"); e.ExpiresAt < instant(deadline) {
			t.Errorf("it expires %v before the deadline of the read: %+v", deadline.Sub(e.ExpiresAt.Time()), s.Stats())
		}
	})
}
