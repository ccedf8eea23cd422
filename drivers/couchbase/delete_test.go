package couchbase_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Remove removes only the record it names: not one that was touched or overwritten since, nor
// the key's next one.
func TestRemoveNamesTheRecord(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	now := driver.Floor(start)
	was := record(t, f)
	refused := func(what string) driver.Meta {
		t.Helper()
		e, err := d.Get(t.Context(), secret)
		ok(t, "Get", err)
		var conflict *driver.ConflictError
		counts := f.during(func() { err = d.Remove(t.Context(), secret, was, now) })
		if !errors.As(err, &conflict) || conflict.Found != e.Meta {
			t.Errorf("%s: Remove: %v; want a conflict with %+v", what, err, e.Meta)
		}
		if want := (couchbasetest.Counts{Remove: 1, LookupIn: 1}); counts != want {
			t.Errorf("%s: the node counted %+v; want %+v", what, counts, want)
		}
		return e.Meta
	}
	ok(t, "Touch", calls(d, was)["Touch"](t.Context()))
	was = refused("touched")
	ok(t, "Replace", calls(d, was)["Replace"](t.Context()))
	was = refused("overwritten")
	ok(t, "Delete", d.Delete(t.Context(), secret))
	_, err := d.Insert(t.Context(), secret, profile{}, was.Life, now)
	ok(t, "Insert", err)
	was = refused("another")

	counts := f.during(func() { ok(t, "Remove", d.Remove(t.Context(), secret, was, now)) })
	if want := (couchbasetest.Counts{Remove: 1, Mutations: 1}); counts != want {
		t.Errorf("the node counted %+v; want %+v", counts, want)
	}
	if err := d.Remove(t.Context(), secret, was, now); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Remove of what is gone: %v", err)
	}

	was = record(t, f)
	f.Advance(time.Hour + time.Minute)
	if err := d.Remove(t.Context(), secret, was, driver.Floor(f.Now())); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Remove of what is dead: %v", err)
	}
}
