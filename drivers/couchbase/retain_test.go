package couchbase_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var idleHour = slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 12 * time.Hour}

// A record that another program writes over a retained dead one is alive, and its life begins at
// its first access, although the server keeps the xattrs of the dead one.
func TestOthersWriteOverTheRetained(t *testing.T) {
	for name, write := range map[string]func(f *fixture) error{
		"without an expiry": func(f *fixture) error {
			_, err := f.c.Upsert("k", profile{Name: "theirs"}, nil)
			return err
		},
		"with one": func(f *fixture) error {
			_, err := f.c.Upsert("k", profile{Name: "theirs"}, &gocb.UpsertOptions{Expiry: 40 * time.Minute})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			s := newStore(t, f, newDriver[profile](t, f, &couchbase.Options{Retain: 30 * day}), idleHour, nil)
			ok(t, "Insert", s.Insert(t.Context(), "k", profile{Name: "ours"}))
			f.Advance(20 * time.Hour) // past the cap of what was inserted
			if _, err := s.Get(t.Context(), "k"); !errors.Is(err, slidingttl.ErrNotFound) {
				t.Fatalf("Get of the dead: %v", err)
			}
			ok(t, "write", write(f))
			f.Advance(time.Minute)
			d := newDriver[profile](t, f, &couchbase.Options{Retain: 30 * day, Timeout: 100 * time.Millisecond})
			at, err := d.Segments(t.Context(), 1)
			ok(t, "Segments", err)
			lock, err := f.c.GetAndLock("k", 15*time.Second, nil)
			ok(t, "GetAndLock", err)
			if _, err := s.Get(t.Context(), "k"); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("Get under a lock, which hides that the record is not the dead one: %v", err)
			}
			if p, err := d.Scan(t.Context(), at[0], 10); err != nil || len(p.Records) != 1 || p.Records[0].Problem == nil {
				t.Errorf("Scan under the lock: %+v, %v; want a record with a problem", p, err)
			}
			if err := newStore(t, f, d, idleHour, nil).Upsert(t.Context(), "k", profile{}); !errors.Is(err, driver.ErrLocked) {
				t.Errorf("Upsert under the lock, for longer than the driver's patience: %v", err)
			}
			ok(t, "Unlock", f.c.Unlock("k", lock.Cas(), nil))
			e, err := s.Entry(t.Context(), "k")
			ok(t, "Entry", err)
			if e.Value.Name != "theirs" || e.CreatedAt != driver.Floor(f.Now()) {
				t.Errorf("%+v; want what was written, created now", e)
			}
		})
	}
}

// Another program's write that keeps the document's expiry neither revives nor ends a life.
func TestOthersKeepTheRetainedExpiry(t *testing.T) {
	f := open(t)
	s := newStore(t, f, newDriver[profile](t, f, &couchbase.Options{Retain: 30 * day}), idleHour, nil)
	ok(t, "Insert", s.Insert(t.Context(), "k", profile{Name: "ours"}))
	keep := &gocb.UpsertOptions{PreserveExpiry: true}
	_, err := f.c.Upsert("k", profile{Name: "theirs"}, keep)
	ok(t, "Upsert", err)
	e, err := s.Peek(t.Context(), "k")
	ok(t, "Peek", err)
	if want := driver.Ceil(start.Add(time.Hour)).RoundUp(time.Second); e.ExpiresAt != want || e.CreatedAt != driver.Floor(start) {
		t.Errorf("%+v; want the life that it had", e)
	}
	f.Advance(2 * time.Hour)
	_, err = f.c.Upsert("k", profile{Name: "theirs"}, keep)
	ok(t, "Upsert", err)
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, slidingttl.ErrNotFound) {
		t.Errorf("Get of the dead that was overwritten with its expiry kept: %v", err)
	}
}

// An insert or upsert over a retained record waits once more than for a new key. Reads and
// touches cost the same as without retention.
func TestRetainedTrips(t *testing.T) {
	type counts = couchbasetest.Counts
	for name, c := range map[string]struct {
		act  func(s *slidingttl.Store[profile]) error
		want counts
	}{
		"Insert": {func(s *slidingttl.Store[profile]) error { return s.Insert(t.Context(), "dead", profile{}) }, counts{LookupIn: 2, MutateIn: 2, Mutations: 1}},
		"Upsert": {func(s *slidingttl.Store[profile]) error { return s.Upsert(t.Context(), "dead", profile{}) }, counts{LookupIn: 2, MutateIn: 2, Mutations: 1}},
		"Get": {func(s *slidingttl.Store[profile]) error {
			_, err := s.Get(t.Context(), "live")
			return err
		}, counts{LookupIn: 1, MutateIn: 1, Mutations: 1}},
		"Peek": {func(s *slidingttl.Store[profile]) error {
			_, err := s.Peek(t.Context(), "live")
			return err
		}, counts{LookupIn: 1}},
		"History": {func(s *slidingttl.Store[profile]) error {
			_, err := s.History(t.Context(), "dead")
			return err
		}, counts{LookupIn: 1}},
	} {
		f := open(t)
		d := newDriver[profile](t, f, &couchbase.Options{Retain: 30 * day})
		s := newStore(t, f, d, idleHour, nil)
		ok(t, "Insert", s.Insert(t.Context(), "dead", profile{}))
		f.Advance(2 * time.Hour)
		ok(t, "Insert", s.Insert(t.Context(), "live", profile{}))
		f.Advance(time.Minute)
		fresh := newStore(t, f, d, idleHour, nil)
		if got := f.during(func() { ok(t, name, c.act(fresh)) }); got != c.want {
			t.Errorf("%s: the node counted %+v; want %+v", name, got, c.want)
		}
	}
}

// A binary document that is retained has its flags, and its record's expiry.
func TestRetainedBinary(t *testing.T) {
	f := open(t)
	d := newDriver[[]byte](t, f, &couchbase.Options{Transcoder: gocb.NewRawBinaryTranscoder(), Retain: day})
	s := newStore(t, f, d, idleHour, nil)
	for i, write := range []func() error{
		func() error { return s.Insert(t.Context(), "k", []byte{1}) },
		func() error { return s.Upsert(t.Context(), "k", []byte{2}) },
		func() error {
			f.Advance(2 * time.Hour)
			return s.Insert(t.Context(), "k", []byte{3})
		},
	} {
		ok(t, "write", write())
		e, err := d.Get(t.Context(), "k")
		ok(t, "Get", err)
		if want := driver.Ceil(f.Now()).Add(time.Hour).RoundUp(time.Second); e.ExpiresAt != want || len(e.Value) != 1 || int(e.Value[0]) != i+1 {
			t.Errorf("after write %d: %+v; want the expiry %v", i, e, want.Time())
		}
		res, err := f.c.Get("k", &gocb.GetOptions{Transcoder: gocb.NewRawBinaryTranscoder(), WithExpiry: true})
		ok(t, "another program's Get", err)
		var body []byte
		ok(t, "Content", res.Content(&body))
		if want := e.ExpiresAt.Add(day).Time(); !res.ExpiryTime().Equal(want) {
			t.Errorf("the document expires at %v; want %v", res.ExpiryTime(), want)
		}
		f.Advance(time.Minute)
	}
}

// Check asks for room for the retention too.
func TestCheckFindsMaxTTLBelowRetain(t *testing.T) {
	f := open(t)
	f.SetTime(time.Time{})
	ok(t, "SetBucketMaxTTL", f.SetBucketMaxTTL(f.Bucket(), 13*time.Hour))
	for retain, fits := range map[time.Duration]bool{0: true, 30 * time.Minute: true, time.Hour: false} {
		for _, probe := range []string{"", "probe"} {
			d := newDriver[profile](t, f, &couchbase.Options{Retain: retain, ProbeKey: probe})
			if err := d.Check(t.Context(), 12*time.Hour); (err == nil) != fits {
				t.Errorf("Check with Retain of %v and the probe %q: %v", retain, probe, err)
			}
		}
	}
	for _, retain := range []time.Duration{-1, 200 * 365 * day} {
		d, err := couchbase.New[profile](f.c, &couchbase.Options{Retain: retain})
		if err == nil {
			err = d.Check(t.Context(), time.Hour)
		}
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Retain of %v: %v; want %v", retain, err, driver.ErrInvalid)
		}
	}
}

// plainly is a repository by gocb alone.
type plainly struct{ c *gocb.Collection }

func (r plainly) Get(_ context.Context, id string) (p profile, err error) {
	res, err := r.c.Get(id, nil)
	if err == nil {
		err = res.Content(&p)
	}
	return p, err
}

func (r plainly) Upsert(_ context.Context, id string, p profile) error {
	_, err := r.c.Upsert(id, p, nil)
	return err
}

// A record that a wrapped repository saves over a retained dead one is alive. A dead one that it
// still returns is not found.
func TestWrappedOverTheRetained(t *testing.T) {
	f := open(t)
	s := newStore(t, f, newDriver[profile](t, f, &couchbase.Options{Retain: 30 * day}), idleHour, nil)
	w, err := slidingttl.Wrap(plainly{f.c}, s, func(id string) string { return id }, nil)
	ok(t, "Wrap", err)
	for life := range 3 {
		ok(t, "Upsert", w.Upsert(t.Context(), "k", profile{Count: life}))
		born := driver.Floor(f.Now())
		for range 13 { // to its cap
			e, err := s.Peek(t.Context(), "k")
			ok(t, "Peek", err)
			if e.CreatedAt != born || e.Value.Count != life {
				t.Fatalf("life %d: %+v; want created_at %d", life, e, born)
			}
			f.Advance(55 * time.Minute)
			_, err = w.Get(t.Context(), "k")
			ok(t, "Get", err)
		}
		f.Advance(2 * time.Hour)
		if p, err := w.Get(t.Context(), "k"); !errors.Is(err, slidingttl.ErrNotFound) {
			t.Errorf("Get of the dead: %+v, %v", p, err)
		}
		past, err := s.History(t.Context(), "k")
		ok(t, "History", err)
		if past.Cause != slidingttl.ReadDiedOfAge || past.Value.Count != life {
			t.Errorf("History is %+v", past)
		}
	}
}
