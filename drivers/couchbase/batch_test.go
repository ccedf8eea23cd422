package couchbase_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// many inserts n records and returns their keys.
func many(t *testing.T, d *couchbase.Driver[profile], n int) []string {
	t.Helper()
	now := driver.Floor(start)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
		_, err := d.Insert(t.Context(), keys[i], profile{Count: i}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
		ok(t, "Insert", err)
	}
	return keys
}

// A lookup that fails, and those that get no answer, are missing from a GetMulti, and no others are.
func TestGetMultiBeyondFailures(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, &couchbase.Options{Timeout: 2 * time.Second})
	keys := many(t, d, 400)
	for _, c := range []struct {
		name  string
		fault couchbasetest.Fault
		want  error
	}{
		{"error", couchbasetest.Fault{Status: memd.StatusInternalError}, gocb.ErrInternalServerFailure},
		{"silence", couchbasetest.Fault{Silent: true, Count: 100}, gocb.ErrTimeout}, // more than a call's readers
	} {
		c.fault.Ops = []couchbasetest.Op{couchbasetest.OpLookupIn}
		ok(t, "Inject", f.Inject(c.fault))
		found, err := d.GetMulti(t.Context(), keys)
		if failed := max(c.fault.Count, 1); len(found) != len(keys)-failed || !errors.Is(err, c.want) {
			t.Errorf("%s: %d of %d found, %v; want all but %d, and %v", c.name, len(found), len(keys), err, failed, c.want)
		}
	}
}

// A GetMulti of a store that fails ends without asking for all keys.
func TestGetMultiOfFailingStore(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	keys := many(t, d, 2000)
	ok(t, "Inject", f.Inject(couchbasetest.Fault{Status: memd.StatusInternalError, Count: 1 << 20}))
	counts := f.during(func() {
		if found, err := d.GetMulti(t.Context(), keys); len(found) != 0 || !errors.Is(err, gocb.ErrInternalServerFailure) {
			t.Errorf("%d found, %v", len(found), err)
		}
	})
	if counts.LookupIn > 1000 {
		t.Errorf("asked for %d of %d keys", counts.LookupIn, len(keys))
	}
}

// Lookups without an answer do not take all slots of a driver.
func TestGetMultiBesideSilence(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	keys := many(t, d, 64)
	ok(t, "Inject", f.Inject(couchbasetest.Fault{Ops: []couchbasetest.Op{couchbasetest.OpLookupIn}, Silent: true, Count: 4 * 64}))
	ctx, cancel := context.WithCancel(t.Context())
	var silent sync.WaitGroup
	defer silent.Wait()
	defer cancel()
	before := f.Counts().LookupIn
	for range 4 {
		silent.Go(func() { _, _ = d.GetMulti(ctx, keys) })
	}
	ok(t, "Await", f.Await(t.Context(), func(c couchbasetest.Counts) bool { return c.LookupIn >= before+4*64 }))
	within, end := context.WithTimeout(t.Context(), 20*time.Second)
	defer end()
	if found, err := d.GetMulti(within, keys[:5]); err != nil || len(found) != 5 {
		t.Errorf("%d found, %v; want all 5", len(found), err)
	}
}
