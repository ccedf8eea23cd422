package couchbase_test

import (
	"testing"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// TestErrRefused: what no other attempt changes says so. With a wrong password gocb never
// connects, and of an operation only tells that it waited for that.
func TestErrRefused(t *testing.T) {
	f := open(t)
	f.c = f.c.Bucket().Scope("missing").Collection("missing")
	t.Run("no collection", func(t *testing.T) {
		// gocb waits for a collection until the timeout.
		drivertest.RunRefused(t, newDriver[drivertest.Value](t, f, &couchbase.Options{Timeout: 100 * time.Millisecond}))
	})
	f = open(t)
	ok(t, "Inject", f.Inject(couchbasetest.Fault{Status: memd.StatusAccessError, Count: 100}))
	t.Run("no right", func(t *testing.T) {
		drivertest.RunRefused(t, newDriver[drivertest.Value](t, f, nil))
	})
}
