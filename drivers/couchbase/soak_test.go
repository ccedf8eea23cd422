package couchbase_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

var soakTime = flag.Duration("couchbase.soak", 2*time.Second, "how long TestSoak makes calls")

// Several processes read, write and delete some keys while answers are lost, the node is
// busy and writes meet each other, and time passes twenty times faster. What their answers
// say must fit together.
func TestSoak(t *testing.T) {
	for _, slack := range []time.Duration{0, 2 * time.Second} {
		policy := slidingttl.Policy{IdleGrace: 8 * time.Second, MaxLifetime: 32 * time.Second, Slack: slack}
		t.Run(fmt.Sprint("slack ", slack), func(t *testing.T) { soak(t, policy) })
	}
}

const soakSpeed = 20 // of time

func soak(t *testing.T, policy slidingttl.Policy) {
	f := open(t)
	s := &drivertest.Soak{Policy: policy, Resolution: time.Second, Now: f.Now, Straggler: time.Second}
	var stores []*slidingttl.Store[drivertest.Diary]
	for range 3 {
		bucket := f.Cluster(t).Bucket(f.Bucket())
		d, err := couchbase.New[drivertest.Diary](bucket.DefaultCollection(), &couchbase.Options{Timeout: 200 * time.Millisecond})
		ok(t, "couchbase.New", err)
		store, err := slidingttl.New(d, policy, &slidingttl.Options[drivertest.Diary]{Now: f.Now})
		ok(t, "slidingttl.New", err)
		defer func() { _ = store.Close(t.Context()) }() // with touches of which the answer was lost
		stores = append(stores, store)
	}
	ctx, stop := context.WithTimeout(t.Context(), *soakTime)
	defer stop()
	var busy sync.WaitGroup
	busy.Go(func() { s.Run(ctx, stores...) })
	busy.Go(func() {
		for last := time.Now(); ctx.Err() == nil; wait(ctx, time.Millisecond) {
			passed := time.Since(last)
			last = last.Add(passed)
			f.Advance(passed * soakSpeed)
		}
	})
	busy.Go(func() {
		writes := []couchbasetest.Op{couchbasetest.OpInsert, couchbasetest.OpReplace, couchbasetest.OpMutateIn, couchbasetest.OpRemove}
		for n := 0; ctx.Err() == nil; n++ {
			fault := []couchbasetest.Fault{
				{Ops: writes, Silent: true, Applied: true},
				{Ops: writes, Silent: true},
				{Ops: writes, Status: memd.StatusTmpFail},
				{Ops: writes, Status: memd.StatusSyncWriteAmbiguous, Applied: true},
				{Status: memd.StatusBusy, Count: 5},
				{Ops: writes, Drop: true, Applied: true},
			}[n%6]
			if err := f.Inject(fault); err != nil {
				t.Error(err)
			}
			wait(ctx, 20*time.Millisecond)
		}
	})
	busy.Wait()
	f.ClearFaults()
	s.Judge(t)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
