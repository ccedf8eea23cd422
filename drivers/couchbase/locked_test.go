package couchbase_test

import (
	"errors"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A touch does not wait for another client's lock. If the record was read locked, no touch is
// sent; if it was locked after the read, one is.
func TestTouchDoesNotWaitForALock(t *testing.T) {
	f := open(t)
	was := record(t, f)
	for _, opts := range []couchbase.Options{{}, {RetryStrategy: gocb.NewBestEffortRetryStrategy(nil)}} {
		d := newDriver[profile](t, f, &opts)
		locked, err := f.c.GetAndLock(secret, 15*time.Second, nil)
		ok(t, "GetAndLock", err)
		e, err := d.Get(t.Context(), secret)
		if err != nil || e.Life != was.Life || e.Value.Name != "kept" {
			t.Fatalf("Get of a locked record: %+v, %v", e, err)
		}
		for _, c := range []struct {
			name string
			was  driver.Meta
			want couchbasetest.Counts
		}{
			{"read before the lock", was, couchbasetest.Counts{MutateIn: 1}},
			{"read under the lock", e.Meta, couchbasetest.Counts{}},
		} {
			var err error
			counts := f.during(func() { err = calls(d, c.was)["Touch"](t.Context()) })
			if !errors.Is(err, driver.ErrLocked) || !errors.Is(err, gocb.ErrDocumentLocked) || errors.Is(err, driver.ErrConflict) {
				t.Errorf("%s: %v; want driver.ErrLocked and gocb's own", c.name, err)
			}
			if counts != c.want {
				t.Errorf("%s: the node counted %+v; want %+v", c.name, counts, c.want)
			}
		}
		ok(t, "Unlock", f.c.Unlock(secret, locked.Cas(), nil))
		e, err = d.Get(t.Context(), secret)
		ok(t, "Get", err)
		if e.Life != was.Life {
			t.Errorf("after the lock the record is %+v; want its life as it was, %+v", e, was.Life)
		}
		was = e.Meta
	}
	ok(t, "Touch after the lock", calls(newDriver[profile](t, f, nil), was)["Touch"](t.Context()))
}

// A touch that fails for another reason than a lock is retried.
func TestTouchIsTriedAgain(t *testing.T) {
	f := open(t)
	was := record(t, f)
	ok(t, "Inject", f.Inject(couchbasetest.Fault{Ops: []couchbasetest.Op{couchbasetest.OpMutateIn}, Status: memd.StatusTmpFail, Count: 2}))
	ok(t, "Touch", calls(newDriver[profile](t, f, nil), was)["Touch"](t.Context()))
	if left := f.ClearFaults(); left != 0 {
		t.Errorf("%d faults did not strike", left)
	}
}
