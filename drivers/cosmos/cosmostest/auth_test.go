package cosmostest

import (
	"io"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestSignatures(t *testing.T) {
	f := open(t, nil, azcosmos.ContainerProperties{})
	other := Start(t)
	credential, err := azcosmos.NewKeyCredential(other.Key())
	if err != nil {
		t.Fatal(err)
	}
	o := &azcosmos.ClientOptions{}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	o.Transport = &http.Client{Transport: transport}
	client, err := azcosmos.NewClientWithKey(f.Endpoint(), credential, o)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := client.NewContainer("test", f.c.ID())
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.ReadItem(t.Context(), pk("k"), "k", nil)
	wantStatus(t, "another account's key", err, 401, "")
	res, err := http.Get(f.Endpoint() + "dbs/test/colls/" + f.c.ID())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if res.StatusCode != 401 {
		t.Errorf("without a signature: %s", res.Status)
	}
}
