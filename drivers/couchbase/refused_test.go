package couchbase_test

import (
	"testing"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// TestErrRefused: a failure that no retry can help is ErrRefused. With a wrong password gocb
// never connects, and an operation's error only says that it waited for a connection.
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
