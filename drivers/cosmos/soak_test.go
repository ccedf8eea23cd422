package cosmos

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

var soakTime = flag.Duration("cosmos.soak", 2*time.Second, "how long TestSoak makes calls")

// Several processes read, write and delete some keys while answers are lost, requests are
// throttled and writes meet each other, and time passes twenty times faster. The service's
// clock is hours off theirs. What their answers say must fit together.
func TestSoak(t *testing.T) {
	for _, slack := range []time.Duration{0, 2 * time.Second} {
		policy := slidingttl.Policy{IdleGrace: 8 * time.Second, MaxLifetime: 32 * time.Second, Slack: slack}
		t.Run(fmt.Sprint("slack ", slack), func(t *testing.T) { soak(t, policy) })
	}
}

const (
	soakOff   = 5 * time.Hour // by how much the processes' clocks are ahead
	soakSpeed = 20            // of time
)

func soak(t *testing.T, policy slidingttl.Policy) {
	account := cosmostest.Start(t)
	account.SetTime(base.Time())
	account.SetThroughput(60_000)
	shape, err := New[drivertest.Diary](&azcosmos.ContainerClient{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	properties := shape.Properties("soak")
	account.Container(t, properties)
	s := &drivertest.Soak{Policy: policy, Resolution: time.Second, Now: func() time.Time { return account.Now().Add(soakOff) }}
	var stores []*slidingttl.Store[drivertest.Diary]
	for range 3 {
		container, err := account.Client(t, impatient).NewContainer("test", properties.ID)
		if err != nil {
			t.Fatal(err)
		}
		d, err := New[drivertest.Diary](container, nil)
		if err != nil {
			t.Fatal(err)
		}
		store, err := slidingttl.New[drivertest.Diary](d, policy, &slidingttl.Options[drivertest.Diary]{Now: s.Now})
		if err != nil {
			t.Fatal(err)
		}
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
			account.Advance(passed * soakSpeed)
		}
	})
	busy.Go(func() {
		writes := []cosmostest.Op{cosmostest.OpCreate, cosmostest.OpReplace, cosmostest.OpPatch, cosmostest.OpDelete}
		for n := 0; ctx.Err() == nil; n++ {
			fault := []cosmostest.Fault{
				{Ops: writes, Drop: true, Applied: true},
				{Ops: writes, Drop: true},
				{Ops: writes, Status: statusRetryWith},
				{Ops: writes, Status: 503, Applied: true},
				{Status: 429, RetryAfter: time.Millisecond, Count: 5},
			}[n%5]
			if err := account.Inject(fault); err != nil {
				t.Error(err)
			}
			wait(ctx, 20*time.Millisecond)
		}
	})
	busy.Wait()
	account.ClearFaults()
	account.SetThroughput(0)
	s.Judge(t)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
