package cosmostest

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestTimeToLive(t *testing.T) {
	f := open(t, nil, azcosmos.ContainerProperties{})
	there := func() bool {
		_, err := f.c.ReadItem(t.Context(), pk("k"), "k", nil)
		return err == nil
	}
	f.SetTime(start.Add(900 * time.Millisecond))
	f.create(t, `{"id":"k","ttl":10}`, "k")
	f.SetTime(start.Add(10*time.Second - time.Millisecond))
	if !there() {
		t.Error("an item is gone before its ttl has passed since _ts")
	}
	var p azcosmos.PatchOperations
	p.AppendSet("/n", 1)
	if _, err := f.c.PatchItem(t.Context(), pk("k"), "k", p, nil); err != nil {
		t.Fatal(err)
	}
	f.SetTime(start.Add(19*time.Second - time.Millisecond))
	if !there() {
		t.Error("a write has not restarted the ttl")
	}
	f.SetTime(start.Add(19 * time.Second))
	if there() {
		t.Error("an item is there when its ttl has passed")
	}
	_, err := f.c.PatchItem(t.Context(), pk("k"), "k", p, nil)
	wantStatus(t, "a patch of what has expired", err, 404, "")
	f.create(t, `{"id":"k"}`, "k")
	for _, bad := range []string{`0`, `-2`, `1.5`, `"60"`, `true`, `2147483648`} {
		_, err := f.c.UpsertItem(t.Context(), pk("k"), []byte(`{"id":"k","ttl":`+bad+`}`), nil)
		wantStatus(t, "a ttl of "+bad, err, 400, "")
	}
	for _, good := range []string{`null`, `-1`, `1`, `2147483647`} {
		if _, err := f.c.UpsertItem(t.Context(), pk("k"), []byte(`{"id":"k","ttl":`+good+`}`), nil); err != nil {
			t.Errorf("a ttl of %s: %v", good, err)
		}
	}
}
