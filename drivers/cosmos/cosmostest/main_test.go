package cosmostest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is an account whose clock stands at start, and a container with time to live.
type fixture struct {
	*Account
	c *azcosmos.ContainerClient
}

func open(t testing.TB, opts *Options, p azcosmos.ContainerProperties) *fixture {
	t.Helper()
	a := StartWith(t, opts)
	a.SetTime(start)
	if p.DefaultTimeToLive == nil {
		p.DefaultTimeToLive = to.Ptr[int32](-1)
	}
	return &fixture{a, a.Container(t, p, func(o *azcosmos.ClientOptions) {
		o.Retry = policy.RetryOptions{MaxRetries: -1}
	})}
}

func pk(values ...string) azcosmos.PartitionKey {
	k := azcosmos.NewPartitionKey()
	for _, v := range values {
		k = k.AppendString(v)
	}
	return k
}

func (f *fixture) create(t testing.TB, item string, key ...string) azcosmos.ItemResponse {
	t.Helper()
	res, err := f.c.CreateItem(t.Context(), pk(key...), []byte(item), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// doc is the item under id, which is its partition key too, without what the service adds.
func (f *fixture) doc(t testing.TB, id string) map[string]any {
	t.Helper()
	res, err := f.c.ReadItem(t.Context(), pk(id), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(res.Value, &doc); err != nil {
		t.Fatal(err)
	}
	for name := range doc {
		if strings.HasPrefix(name, "_") {
			delete(doc, name)
		}
	}
	return doc
}

func wantStatus(t testing.TB, what string, err error, status int, sub string) {
	t.Helper()
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) || answer.StatusCode != status || answer.RawResponse.Header.Get("x-ms-substatus") != sub {
		t.Errorf("%s: error %v, want status %d, sub-status %q", what, err, status, sub)
	}
}

func tag(e azcore.ETag) *azcosmos.ItemOptions { return &azcosmos.ItemOptions{IfMatchEtag: &e} }

// An item with a ttl exists until that has passed since its last write.
// Lagging replicas show the state before the last write to a client without its token.
// Charges are Microsoft's figures, where there are any.
// A request that is not signed with the key is refused.
