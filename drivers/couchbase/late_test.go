package couchbase_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A hanging write is given up when the record's life ends. If the server executes it later, it
// revives only a record that the server retains, as the README says.
func TestLateWrite(t *testing.T) {
	for name, write := range map[string]func(d *couchbase.Driver[profile], was driver.Meta, life driver.Life) error{
		"touch": func(d *couchbase.Driver[profile], was driver.Meta, life driver.Life) error {
			_, err := d.Touch(t.Context(), "k", was, life, was.CreatedAt)
			return err
		},
		"replace": func(d *couchbase.Driver[profile], was driver.Meta, life driver.Life) error {
			_, err := d.Replace(t.Context(), "k", profile{}, was, life, was.CreatedAt)
			return err
		},
	} {
		for _, retain := range []time.Duration{0, time.Hour} {
			t.Run(name+" retained for "+retain.String(), func(t *testing.T) {
				t.Parallel()
				f := open(t)
				d := newDriver[profile](t, f, &couchbase.Options{Retain: retain, Timeout: time.Minute})
				now := driver.Floor(f.Now())
				short := driver.Life{CreatedAt: now, ExpiresAt: now.RoundUp(time.Second).Add(time.Second)}
				long := driver.Life{CreatedAt: now, ExpiresAt: now.RoundUp(time.Second).Add(time.Hour)}
				version, err := d.Insert(t.Context(), "k", profile{}, short, now)
				ok(t, "Insert", err)
				before := f.Counts()
				resume := f.Hang()
				defer resume()
				err = write(d, driver.Meta{Life: short, Version: version}, long)
				if !errors.Is(err, driver.ErrLate) || !errors.Is(err, driver.ErrAmbiguous) {
					t.Errorf("error %v, want one that says that it was given up and may have landed", err)
				}
				f.Advance(5 * time.Second)
				resume()
				ok(t, "Await", f.Await(t.Context(), func(n couchbasetest.Counts) bool { return n.MutateIn > before.MutateIn }))
				e, err := d.Get(t.Context(), "k")
				if retain == 0 && !errors.Is(err, driver.ErrNotFound) || retain > 0 && (err != nil || e.Life != long) {
					t.Errorf("after it was carried out: %+v, %v", e.Life, err)
				}
			})
		}
	}
}
