package cosmos

import (
	"os"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestRealAccount runs what every server is held to on the account that SLIDINGTTL_COSMOS
// names by its connection string, in a container "slidingttl/opinions" that is made anew:
// Azure's, or Microsoft's emulator (compose.yaml). Without one it runs on cosmostest alone,
// as TestOpinions does.
func TestRealAccount(t *testing.T) {
	address := os.Getenv("SLIDINGTTL_COSMOS")
	if address == "" {
		t.Log("SLIDINGTTL_COSMOS is not set: no real account")
		return
	}
	client, err := azcosmos.NewClientFromConnectionString(address, nil)
	if err != nil {
		t.Fatal("SLIDINGTTL_COSMOS is no connection string")
	}
	t.Cleanup(client.Close)
	container := makeContainer(t, client, "opinions", nil)
	defer func() { _, _ = container.Delete(t.Context(), nil) }()
	opinions(t, container)
}
