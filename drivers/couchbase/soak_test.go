//go:build !race

// gocbcore v10.8.1 writes to a request that it sends again while the write before may still
// read it (kvMux.RouteRequest, memd.Conn.WritePacket), which the race detector sees now and
// then.

package couchbase_test

import (
	"flag"
	"testing"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

var soakTime = flag.Duration("couchbase.soak", 2*time.Second, "how long TestSoak makes calls")

// Answers are lost, and the node is busy.
func TestSoak(t *testing.T) {
	drivertest.RunSoak(t, *soakTime, func(t *testing.T) *drivertest.Soak {
		f := open(t)
		writes := []couchbasetest.Op{couchbasetest.OpInsert, couchbasetest.OpReplace, couchbasetest.OpMutateIn, couchbasetest.OpRemove}
		return &drivertest.Soak{
			Open: func() driver.Driver[drivertest.Diary] {
				bucket := f.Cluster(t).Bucket(f.Bucket())
				d, err := couchbase.New[drivertest.Diary](bucket.DefaultCollection(), &couchbase.Options{Timeout: 200 * time.Millisecond})
				ok(t, "couchbase.New", err)
				return d
			},
			IdleGrace: 8 * time.Second,
			Now:       f.Now,
			Advance:   f.Advance,
			Disturb: func(n int) {
				faults := []couchbasetest.Fault{
					{Ops: writes, Silent: true, Applied: true},
					{Ops: writes, Silent: true},
					{Ops: writes, Status: memd.StatusTmpFail},
					{Ops: writes, Status: memd.StatusSyncWriteAmbiguous, Applied: true},
					{Status: memd.StatusBusy, Count: 5},
					{Ops: writes, Drop: true, Applied: true},
				}
				if err := f.Inject(faults[n%len(faults)]); err != nil {
					t.Error(err)
				}
			},
			Mend:      func() { f.ClearFaults() },
			Straggler: time.Second,
		}
	})
}
