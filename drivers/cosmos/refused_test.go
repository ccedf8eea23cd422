package cosmos

import (
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// TestErrRefused: a failure that no retry can help is ErrRefused.
func TestErrRefused(t *testing.T) {
	account := cosmostest.Start(t)
	refuses := func(t *testing.T, client *azcosmos.Client) {
		container, err := client.NewContainer("test", "missing")
		if err != nil {
			t.Fatal(err)
		}
		d, err := New[drivertest.Value](container, &Options{Codec: exactNumbers{}})
		if err != nil {
			t.Fatal(err)
		}
		drivertest.RunRefused(t, d)
	}
	t.Run("no container", func(t *testing.T) { refuses(t, account.Client(t, impatient)) })
	t.Run("wrong key", func(t *testing.T) {
		key, err := azcosmos.NewKeyCredential(cosmostest.Start(t).Key())
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		o := &azcosmos.ClientOptions{}
		o.Transport = &http.Client{Transport: transport}
		client, err := azcosmos.NewClientWithKey(account.Endpoint(), key, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		refuses(t, client)
	})
}
