package cosmostest

import (
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestItems(t *testing.T) {
	f := open(t, nil, azcosmos.ContainerProperties{})
	first := f.create(t, `{"id":"k","n":1}`, "k")
	if len(first.Value) != 0 || first.ETag == "" {
		t.Errorf("CreateItem answers with %s, etag %q", first.Value, first.ETag)
	}
	_, err := f.c.CreateItem(t.Context(), pk("k"), []byte(`{"id":"k"}`), nil)
	wantStatus(t, "another of that id", err, 409, "")
	_, err = f.c.CreateItem(t.Context(), pk("other"), []byte(`{"id":"l"}`), nil)
	wantStatus(t, "an item with another partition key", err, 400, "1001")
	second, err := f.c.ReplaceItem(t.Context(), pk("k"), "k", []byte(`{"id":"k","n":2}`), tag(first.ETag))
	if err != nil || second.ETag == first.ETag {
		t.Errorf("ReplaceItem: %v, etag %q, before %q", err, second.ETag, first.ETag)
	}
	_, err = f.c.ReplaceItem(t.Context(), pk("k"), "k", []byte(`{"id":"k","n":3}`), tag(first.ETag))
	wantStatus(t, "a replacement of what was before", err, 412, "")
	_, err = f.c.UpsertItem(t.Context(), pk("k"), []byte(`{"id":"k","n":3}`), tag(first.ETag))
	wantStatus(t, "an upsert over what was before", err, 412, "")
	_, err = f.c.DeleteItem(t.Context(), pk("k"), "k", tag(first.ETag))
	wantStatus(t, "a delete of what was before", err, 412, "")
	res, err := f.c.UpsertItem(t.Context(), pk("k"), []byte(`{"id":"k","n":4,"_etag":"mine","_ts":1}`), &azcosmos.ItemOptions{EnableContentResponseOnWrite: true})
	if err != nil || !strings.Contains(string(res.Value), `"_ts":1772366400`) {
		t.Errorf("UpsertItem answers with %s, %v", res.Value, err)
	}
	if got := f.doc(t, "k"); got["n"] != 4.0 {
		t.Errorf("the item is %v", got)
	}
	_, err = f.c.DeleteItem(t.Context(), pk("k"), "k", nil)
	if err != nil {
		t.Error(err)
	}
	_, err = f.c.ReadItem(t.Context(), pk("k"), "k", nil)
	wantStatus(t, "a read of what is deleted", err, 404, "")
	_, err = f.c.DeleteItem(t.Context(), pk("k"), "k", nil)
	wantStatus(t, "a delete of what is deleted", err, 404, "")
	_, err = f.c.CreateItem(t.Context(), pk("big"), []byte(`{"id":"big","b":"`+strings.Repeat("b", maxItem)+`"}`), nil)
	wantStatus(t, "an item of more than 2 MB", err, 413, "")
	none, err := f.Client(t).NewContainer("test", "none")
	if err != nil {
		t.Fatal(err)
	}
	_, err = none.ReadItem(t.Context(), pk("k"), "k", nil)
	wantStatus(t, "a container that is not there", err, 404, "1003")
}
