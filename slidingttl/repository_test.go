package slidingttl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
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
		for _, anew := range []func(){
			func() { must(t, ow.Upsert(t.Context(), 1, profile{Name: "bob"})) },
			func() { under.Plant(profileKey(1), profile{Name: "bob"}, driver.Life{}) }, // its expiry is yet to come
		} {
			must(t, ow.Delete(t.Context(), 1))
			must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
			time.Sleep(time.Minute)
			meanwhile := once("touch", func() {
				must(t, ow.Delete(t.Context(), 1))
				anew()
			})
			d.before = func(_ context.Context, op, _ string) error { meanwhile(op); return nil }
			must(t, w.Upsert(t.Context(), 1, profile{Name: "ann2"}))
			if e := stored(t, under, profileKey(1)); e.CreatedAt != instant(time.Now()) || e.Value.Name != "bob" {
				t.Errorf("a successor was given a created_at of %v ago: %+v", instant(time.Now()).Sub(e.CreatedAt), e)
			}
		}
	})
}
