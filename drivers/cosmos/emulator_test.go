package cosmos

import (
	"os"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestRealAccount runs TestOpinions on the account whose connection string is in
// SLIDINGTTL_COSMOS, on Azure or Microsoft's emulator (compose.yaml). It recreates the container
// "slidingttl/opinions". Without an account it runs on cosmostest.
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
