package cosmostest

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestLag(t *testing.T) {
	for level, want := range map[azcosmos.ConsistencyLevel][2]bool{ // whether the write is seen without a token, with one
		azcosmos.ConsistencyLevelStrong:           {true, true},
		azcosmos.ConsistencyLevelBoundedStaleness: {true, true},
		azcosmos.ConsistencyLevelSession:          {false, true},
		azcosmos.ConsistencyLevelConsistentPrefix: {false, false},
		azcosmos.ConsistencyLevelEventual:         {false, false},
	} {
		f := open(t, &Options{Consistency: level}, azcosmos.ContainerProperties{})
		f.SetLag(true)
		token := f.create(t, `{"id":"k"}`, "k").SessionToken
		for i, o := range []*azcosmos.ItemOptions{nil, {SessionToken: token}} {
			if _, err := f.c.ReadItem(t.Context(), pk("k"), "k", o); (err == nil) != want[i] {
				t.Errorf("%s, with a token: %t: error %v, want the write to be seen: %t", level, i == 1, err, want[i])
			}
		}
		_, err := f.c.CreateItem(t.Context(), pk("k"), []byte(`{"id":"k"}`), nil)
		wantStatus(t, "a write, which replicas do not answer", err, 409, "")
	}
	f := open(t, nil, azcosmos.ContainerProperties{})
	_, err := f.c.ReadItem(t.Context(), pk("k"), "k", &azcosmos.ItemOptions{SessionToken: to.Ptr("0:-1#999")})
	wantStatus(t, "a token of what is to come", err, 404, "1002")
	_, err = f.c.ReadItem(t.Context(), pk("k"), "k", &azcosmos.ItemOptions{ConsistencyLevel: to.Ptr(azcosmos.ConsistencyLevelStrong)})
	wantStatus(t, "a level above the account's", err, 400, "")
}
