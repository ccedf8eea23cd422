package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// whole is a repository with all optional methods.
type whole struct{ profiles }

var errProfileExists = errors.New("profile exists")

func (r whole) GetMulti(ctx context.Context, ids []int) (map[int]profile, error) {
	found := make(map[int]profile)
	for _, id := range ids {
		if p, err := r.Get(ctx, id); err == nil {
			found[id] = p
		}
	}
	return found, nil
}

func (r whole) Insert(ctx context.Context, id int, p profile) error {
	if _, err := r.Get(ctx, id); err == nil {
		return errProfileExists
	}
	return r.Upsert(ctx, id, p)
}

func (r whole) Update(ctx context.Context, id int, p profile) error {
	if _, err := r.Get(ctx, id); err != nil {
		return err
	}
	return r.Upsert(ctx, id, p)
}

func (r whole) Delete(ctx context.Context, id int) error {
	return r.records.Delete(ctx, profileKey(id))
}

// A wrapped repository has the repository's methods, and one ErrNotFound.
func TestWrappedRepository(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		s := open(t, d, session, nil)
		w, err := slidingttl.Wrap(whole{profiles{under}}, s, profileKey, &slidingttl.WrapOptions[profile]{NotFound: errNoProfile})
		must(t, err)
		must(t, w.Insert(t.Context(), 1, profile{Name: "ann"}))
		wantErr(t, w.Insert(t.Context(), 1, profile{Name: "eve"}), errProfileExists)
		wantErr(t, w.Update(t.Context(), 2, profile{Name: "eve"}), errNoProfile)
		born := stored(t, under, profileKey(1)).CreatedAt
		time.Sleep(20 * time.Minute)
		must(t, w.Update(t.Context(), 1, profile{Name: "ann2"}))
		now := instant(time.Now())
		if e := stored(t, under, profileKey(1)); e.CreatedAt != born || e.ExpiresAt != now.Add(session.IdleGrace) || e.Value.Name != "ann2" {
			t.Errorf("an update leaves %+v", e)
		}
		must(t, w.Upsert(t.Context(), 2, profile{Name: "bob"}))
		time.Sleep(20 * time.Minute)
		found, err := w.GetMulti(t.Context(), []int{1, 3})
		must(t, err)
		if len(found) != 1 || found[1].Name != "ann2" {
			t.Errorf("GetMulti: %v", found)
		}
		time.Sleep(20 * time.Minute)

		// Of 2 the repository has the value still.
		_, dead := w.Get(t.Context(), 2)
		_, absent := w.Get(t.Context(), 3)
		var wrapped *slidingttl.Error
		if !errors.Is(dead, errNoProfile) || !errors.Is(dead, slidingttl.ErrNotFound) || !errors.As(dead, &wrapped) || wrapped.Op != "get" || !errors.Is(absent, errNoProfile) {
			t.Errorf("dead: %v, absent: %v", dead, absent)
		}
		if found, err = w.GetMulti(t.Context(), []int{1, 2, 3}); len(found) != 1 || err != nil {
			t.Errorf("GetMulti: %v, %v", found, err)
		}
		must(t, w.Delete(t.Context(), 1))
		_, err = w.Get(t.Context(), 1)
		wantErr(t, err, errNoProfile)

		plain, err := slidingttl.Wrap(profiles{under}, s, profileKey, &slidingttl.WrapOptions[profile]{NotFound: errNoProfile})
		must(t, err)
		wantErr(t, plain.Insert(t.Context(), 4, profile{}), slidingttl.ErrInvalid)
		wantErr(t, plain.Update(t.Context(), 4, profile{}), slidingttl.ErrInvalid)
		must(t, plain.Upsert(t.Context(), 4, profile{Name: "dan"}))
		if found, err := plain.GetMulti(t.Context(), []int{2, 3, 4}); len(found) != 1 || err != nil {
			t.Errorf("GetMulti by Get: %v, %v", found, err)
		}
		must(t, plain.Delete(t.Context(), 4))
		_, err = plain.Get(t.Context(), 4)
		wantErr(t, err, errNoProfile)
	})
}

// Promises 5 and 6: if another process deletes and saves a record again between a save and its
// expiry, the new record does not get the old created_at.
func TestSaveGivesASuccessorNoOldLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		s, other := open(t, d, session, nil), open(t, under, session, nil)
		w, err := slidingttl.Wrap(profiles{under}, s, profileKey, nil)
		must(t, err)
		ow, err := slidingttl.Wrap(profiles{under}, other, profileKey, nil)
		must(t, err)
		for _, planted := range []bool{false, true} { // then its expiry is yet to come
			must(t, ow.Delete(t.Context(), 1))
			must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
			time.Sleep(time.Minute)
			meanwhile := once("touch", func() {
				must(t, ow.Delete(t.Context(), 1))
				if planted {
					under.Plant(profileKey(1), profile{Name: "bob"}, driver.Life{})
				} else {
					must(t, ow.Upsert(t.Context(), 1, profile{Name: "bob"}))
				}
			})
			d.before = func(_ context.Context, op, _ string) error { meanwhile(op); return nil }
			must(t, w.Upsert(t.Context(), 1, profile{Name: "ann2"}))
			e := stored(t, under, profileKey(1))
			if planted && e.CreatedAt != 0 || !planted && e.CreatedAt != instant(time.Now()) || e.Value.Name != "bob" {
				t.Errorf("a successor was given a created_at of %v ago: %+v", instant(time.Now()).Sub(e.CreatedAt), e)
			}
		}
	})
}

// A save whose transaction may be undone writes the life by itself, for a touch goes on without it, and
// remembers nothing.
func TestSaveThatMayBeUndone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		s := open(t, d, session, nil)
		repo := profiles{under}
		w, err := slidingttl.Wrap(repo, s, profileKey, nil)
		must(t, err)
		ctx := driver.WithUndo(t.Context())
		save := func(w *slidingttl.Wrapped[int, profile, profile], name string) driver.Life {
			t.Helper()
			must(t, w.Upsert(ctx, 1, profile{Name: name}))
			return stored(t, under, profileKey(1)).Life
		}
		born := instant(time.Now())
		if l := save(w, "new"); l != (driver.Life{CreatedAt: born, ExpiresAt: born.Add(session.IdleGrace)}) {
			t.Errorf("a new record lives %+v", l)
		}
		touches := d.count("touch")
		must(t, s.Keep(t.Context(), profileKey(1)))
		if d.count("get") == 0 || d.count("touch") != touches {
			t.Errorf("Keep after it made %v", d.counts())
		}
		time.Sleep(time.Minute)
		if l := save(w, "again"); l != (driver.Life{CreatedAt: born, ExpiresAt: instant(time.Now()).Add(session.IdleGrace)}) {
			t.Errorf("a live record lives %+v, created %v before", l, l.CreatedAt.Sub(born))
		}
		// Another's clock is ahead, so its expiry lies beyond what this one writes.
		ahead := instant(time.Now()).Add(session.IdleGrace + 30*time.Second)
		under.Plant(profileKey(1), profile{}, driver.Life{CreatedAt: born, ExpiresAt: ahead})
		if l := save(w, "behind"); l != (driver.Life{CreatedAt: born, ExpiresAt: ahead}) {
			t.Errorf("a later expiry becomes %+v", l)
		}
		// A repository that keeps the life beside the value.
		whole, err := slidingttl.Wrap(keeping{repo}, s, profileKey, nil)
		must(t, err)
		d.counts()
		if l := save(whole, "kept"); l.ExpiresAt != ahead || d.count("touch") != 0 {
			t.Errorf("a kept life becomes %+v by %v", l, d.counts())
		}
		far := instant(time.Now()).Add(2 * session.IdleGrace)
		under.Plant(profileKey(1), profile{}, driver.Life{CreatedAt: born, ExpiresAt: far})
		if l := save(whole, "beyond"); l.CreatedAt != born || l.ExpiresAt >= far || l.ExpiresAt != instant(time.Now()).Add(session.IdleGrace+time.Minute) {
			t.Errorf("an expiry beyond the policy becomes %+v", l)
		}
		time.Sleep(session.IdleGrace + 5*time.Minute)
		if l := save(w, "next"); l.CreatedAt != instant(time.Now()) {
			t.Errorf("after its death the next record was created %v ago", instant(time.Now()).Sub(l.CreatedAt))
		}
		refusing, err := slidingttl.Wrap(repo, open(t, d, session, &slidingttl.Options[profile]{Foreign: slidingttl.ReadOnly}), profileKey, nil)
		must(t, err)
		must(t, refusing.Upsert(ctx, 2, profile{})) // a new record is nobody's
		under.Plant(profileKey(3), profile{}, driver.Life{})
		wantErr(t, refusing.Upsert(ctx, 3, profile{Name: "bob"}), slidingttl.ErrForeign)
		if e := stored(t, under, profileKey(3)); e.Value.Name != "" {
			t.Error("a foreign record was written over")
		}
	})
}

// keeping is a repository whose Upsert keeps what is stored beside the value.
type keeping struct{ profiles }

func (k keeping) Upsert(ctx context.Context, id int, v profile) error {
	e, err := k.records.Get(ctx, profileKey(id))
	if err == nil {
		k.records.Plant(profileKey(id), v, e.Life)
	}
	return err
}

// A process whose clock is behind does not take another's expiry for one beyond the policy, in a save.
func TestSaveByAClockBehind(t *testing.T) {
	for name, wipes := range map[string]bool{"wiping": true, "keeping": false} {
		for _, undo := range []bool{false, true} {
			t.Run(fmt.Sprint(name, undo), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					_, under := newRemote[profile](time.Millisecond)
					ahead := open(t, under, session, nil)
					behind := open(t, under, session, &slidingttl.Options[profile]{Now: func() time.Time { return time.Now().Add(-2 * time.Hour) }})
					key, ctx := profileKey(1), t.Context()
					must(t, ahead.Insert(ctx, key, profile{Name: "ann"}))
					was := stored(t, under, key)
					var repo slidingttl.Repository[int, profile] = profiles{under}
					if !wipes {
						repo = keeping{profiles{under}}
					}
					w, err := slidingttl.Wrap(repo, behind, profileKey, nil)
					must(t, err)
					if undo {
						ctx = driver.WithUndo(ctx)
					}
					must(t, w.Upsert(ctx, 1, profile{Name: "bob"}))
					if is := stored(t, under, key); is.Life != was.Life {
						t.Errorf("a life of %+v became %+v", was.Life, is.Life)
					}
				})
			})
		}
	}
}

// A save through a repository leaves the records of other programs alone where the store does, and gives
// its own a life.
func TestSavesBesideForeignRecords(t *testing.T) {
	for _, foreign := range []slidingttl.Foreign{slidingttl.ReadOnly, slidingttl.Reject} {
		for name, created := range map[string]func(profile) time.Time{"": nil, " with created_at": func(profile) time.Time { return time.Now() }} {
			t.Run(fmt.Sprint(int(foreign), name), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					d, under := newRemote[profile](time.Millisecond)
					s := open(t, d, session, &slidingttl.Options[profile]{Foreign: foreign})
					w, err := slidingttl.Wrap(profiles{under}, s, profileKey, &slidingttl.WrapOptions[profile]{CreatedAt: created})
					must(t, err)
					under.Plant(profileKey(1), profile{Name: "theirs"}, driver.Life{})
					wantErr(t, w.Upsert(t.Context(), 1, profile{Name: "ours"}), slidingttl.ErrForeign)
					if e := stored(t, under, profileKey(1)); e.Value.Name != "theirs" {
						t.Error("it was written over")
					}
					for range 2 {
						must(t, w.Upsert(t.Context(), 2, profile{Name: "new"}))
						now := instant(time.Now())
						if l := stored(t, under, profileKey(2)).Life; l.CreatedAt == 0 || l.ExpiresAt.Sub(now) > session.IdleGrace {
							t.Errorf("a record of ours lives %+v", l)
						}
						time.Sleep(time.Minute)
					}
				})
			})
		}
	}
}

// A save is no read: with Promote it does not take a record to its cap.
func TestSaveDoesNotPromote(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		promote := session
		promote.Promote = true
		s := open(t, d, promote, nil)
		w, err := slidingttl.Wrap(profiles{under}, s, profileKey, nil)
		must(t, err)
		left := func() time.Duration { return stored(t, under, profileKey(1)).ExpiresAt.Sub(instant(time.Now())) }
		for range 2 {
			must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
			if l := left(); l > session.IdleGrace+time.Second {
				t.Errorf("after a save %v are left", l)
			}
			time.Sleep(time.Minute)
		}
		_, err = w.Get(t.Context(), 1)
		must(t, err)
		if l := left(); l < session.MaxLifetime-time.Hour {
			t.Errorf("after a read %v are left", l)
		}
	})
}

// Nor does a save whose record was meanwhile deleted and written by another program.
func TestSaveDoesNotPromoteAnothers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		promote := session
		promote.Promote = true
		s := open(t, d, promote, nil)
		w, err := slidingttl.Wrap(profiles{under}, s, profileKey, nil)
		must(t, err)
		key, now := profileKey(1), instant(time.Now())
		short := driver.Life{CreatedAt: now, ExpiresAt: now.Add(session.IdleGrace / 2)}
		d.before = func(_ context.Context, op, _ string) error {
			if op == fakestore.Touch && d.count(op) == 1 {
				must(t, under.Delete(context.Background(), key))
			}
			return nil
		}
		d.after = func(op, _ string) {
			if op == fakestore.Touch && d.count(op) == 1 {
				under.Plant(key, profile{Name: "another"}, short)
			}
		}
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		if e := stored(t, under, key); e.Value.Name != "another" || e.ExpiresAt > now.Add(session.IdleGrace+time.Minute) {
			t.Errorf("%+v", e)
		}
	})
}

// A lowering that was rolled back does not keep the next access from lowering.
func TestLoweringRolledBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		now := instant(time.Now())
		far := driver.Life{CreatedAt: now, ExpiresAt: now.Add(session.MaxLifetime)}
		under.Plant("a", 1, far)
		_, err := s.Update(driver.WithUndo(t.Context()), "a", func(v int) (int, error) { return v, nil })
		must(t, err)
		under.Plant("a", 1, far) // rolled back
		_, err = s.Get(t.Context(), "a")
		must(t, err)
		if left := stored(t, under, "a").ExpiresAt.Sub(instant(time.Now())); left > session.IdleGrace+2*time.Minute {
			t.Errorf("%v are left", left)
		}
	})
}

// failing is a repository whose Get fails.
type failing struct {
	profiles
	err error
}

func (f failing) Get(context.Context, int) (profile, error) { return profile{}, f.err }

// An error of the repository that is not its NotFound is told, and that one is not.
func TestRepositoryErrorsOfMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		s := open(t, d, session, nil)
		absent := errors.New("no such profile")
		for _, tt := range []struct {
			err    error
			failed int
		}{{errDown, 2}, {absent, 0}} {
			w, err := slidingttl.Wrap(failing{profiles{under}, tt.err}, s, profileKey, &slidingttl.WrapOptions[profile]{NotFound: absent})
			must(t, err)
			_, err = w.GetMulti(t.Context(), []int{1, 2})
			failed, _ := errors.AsType[slidingttl.KeyErrors](err)
			if len(failed) != tt.failed {
				t.Errorf("%v: %v", tt.err, err)
			}
		}
	})
}

// An id whose key is empty is refused by its place, and the others get their answer.
func TestEmptyKeyAmongMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		s := open(t, d, session, nil)
		key := func(id int) string { return map[int]string{1: "a"}[id] }
		for _, repo := range []slidingttl.Repository[int, profile]{profiles{under}, whole{profiles{under}}} {
			w, err := slidingttl.Wrap(repo, s, key, nil)
			must(t, err)
			must(t, under.Delete(t.Context(), profileKey(1)))
			_, err = under.Insert(t.Context(), profileKey(1), profile{Name: "ann"}, driver.Life{}, 0)
			must(t, err)
			found, err := w.GetMulti(t.Context(), []int{1, 2})
			failed, _ := errors.AsType[slidingttl.KeyErrors](err)
			if len(failed) != 1 || failed[0].Index != 1 || !errors.Is(err, slidingttl.ErrInvalid) || s.Stats().TouchFails > 0 {
				t.Errorf("%T: %v, %v, %+v", repo, found, err, s.Stats())
			}
		}
	})
}

// What a repository's GetMulti leaves out is no longer remembered.
func TestLeftOutIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		slack := session
		slack.Slack = 10 * time.Minute
		s := open(t, d, slack, nil)
		w, err := slidingttl.Wrap(whole{profiles{under}}, s, profileKey, nil)
		must(t, err)
		must(t, s.Insert(t.Context(), profileKey(1), profile{Name: "ann"}))
		must(t, s.Keep(t.Context(), profileKey(1)))
		must(t, under.Delete(t.Context(), profileKey(1)))
		_, err = w.GetMulti(t.Context(), []int{1})
		must(t, err)
		wantErr(t, s.Keep(t.Context(), profileKey(1)), slidingttl.ErrNotFound)
	})
}

// A save whose read is answered after Close gave up writes nothing.
func TestNoSaveAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		s, err := slidingttl.New(d, session, nil)
		must(t, err)
		w, err := slidingttl.Wrap(profiles{under}, s, profileKey, nil)
		must(t, err)
		release := make(chan bool)
		d.after = func(string, string) { <-release }
		ended := make(chan error, 1)
		go func() { ended <- w.Upsert(context.Background(), 1, profile{Name: "ann"}) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, s.Close(ctx), context.DeadlineExceeded)
		close(release)
		wantErr(t, <-ended, slidingttl.ErrClosed)
		_, err = under.Get(t.Context(), profileKey(1))
		wantErr(t, err, slidingttl.ErrNotFound)
	})
}
