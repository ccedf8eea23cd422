//go:build !race

// azcore v1.21.0 rewinds the body of a request that it sends again while net/http may still
// read it for the attempt before (runtime.retryableRequestBody), which the race detector sees
// now and then.

package cosmos

import (
	"flag"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

var soakTime = flag.Duration("cosmos.soak", 4*time.Second, "how long TestSoak makes calls")

// soakOff is by how much the processes' clocks are ahead of the service's.
const soakOff = 5 * time.Hour

// Answers are lost, requests are throttled, and writes meet each other.
func TestSoak(t *testing.T) {
	drivertest.RunSoak(t, *soakTime, func(t *testing.T) *drivertest.Soak {
		account := cosmostest.Start(t)
		account.SetTime(base.Time())
		account.SetThroughput(60_000)
		shape, err := New[drivertest.Diary](&azcosmos.ContainerClient{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		properties := shape.Properties("soak")
		account.Container(t, properties)
		writes := []cosmostest.Op{cosmostest.OpCreate, cosmostest.OpReplace, cosmostest.OpPatch, cosmostest.OpDelete}
		return &drivertest.Soak{
			Open: func() driver.Driver[drivertest.Diary] {
				container, err := account.Client(t, impatient).NewContainer("test", properties.ID)
				if err != nil {
					t.Fatal(err)
				}
				d, err := New[drivertest.Diary](container, nil)
				if err != nil {
					t.Fatal(err)
				}
				return d
			},
			IdleGrace: 8 * time.Second,
			Now:       func() time.Time { return account.Now().Add(soakOff) },
			Advance:   account.Advance,
			Disturb: func(n int) {
				faults := []cosmostest.Fault{
					{Ops: writes, Drop: true, Applied: true},
					{Ops: writes, Drop: true},
					{Ops: writes, Status: statusRetryWith},
					{Ops: writes, Status: 503, Applied: true},
					{Status: 429, RetryAfter: time.Millisecond, Count: 5},
				}
				if err := account.Inject(faults[n%len(faults)]); err != nil {
					t.Error(err)
				}
			},
			Mend: func() {
				account.ClearFaults()
				account.SetThroughput(0)
			},
		}
	})
}
