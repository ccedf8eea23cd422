package cosmostest_test

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
)

// A test of what happens to a session when its time has passed.
func ExampleStart() {
	_ = func(t *testing.T) {
		account := cosmostest.Start(t)
		sessions := account.Container(t, azcosmos.ContainerProperties{DefaultTimeToLive: to.Ptr[int32](-1)})
		key := azcosmos.NewPartitionKeyString("s")
		if _, err := sessions.CreateItem(t.Context(), key, []byte(`{"id":"s","user":"ann","ttl":1800}`), nil); err != nil {
			t.Fatal(err)
		}
		account.Advance(31 * time.Minute)
		if _, err := sessions.ReadItem(t.Context(), key, "s", nil); err == nil {
			t.Fatal("the session is still there")
		}
	}
}
