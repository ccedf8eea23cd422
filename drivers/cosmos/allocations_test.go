package cosmos

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// The driver allocates little for an item, compared with azcosmos.
func TestAllocations(t *testing.T) {
	f := open[session](t, nil)
	f.account.SetTime(time.Time{})
	s, err := slidingttl.New[session](f.Driver, sliding, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	if err := s.Insert(t.Context(), "k", session{User: "ann"}); err != nil {
		t.Fatal(err)
	}
	key := azcosmos.NewPartitionKeyString("k")
	per := func(get func() error) float64 {
		return testing.AllocsPerRun(200, func() {
			if err := get(); err != nil {
				t.Fatal(err)
			}
		})
	}
	bare := per(func() error {
		res, err := f.container.ReadItem(t.Context(), key, "k", nil)
		if err != nil {
			return err
		}
		var v session
		return json.Unmarshal(res.Value, &v)
	})
	own := per(func() error {
		_, err := s.Get(t.Context(), "k")
		return err
	})
	t.Logf("a bare read allocates %.0f times, a Get %.0f times (the server in this process included)", bare, own)
	if own > 1.05*bare {
		t.Errorf("a Get allocates %.0f times, want at most 1.05 times the %.0f of a bare read", own, bare)
	}
}
