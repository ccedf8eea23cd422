package cosmostest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestCharges(t *testing.T) {
	none := &azcosmos.IndexingPolicy{IndexingMode: azcosmos.IndexingModeConsistent, ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}}}
	f := open(t, nil, azcosmos.ContainerProperties{IndexingPolicy: none})
	f.create(t, `{"id":"k","n":""}`, "k")
	res, err := f.c.ReadItem(t.Context(), pk("k"), "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		kb                    int
		insert, read, replace float32
	}{{1, 5.5, 1, 11}, {100, 50, 10, 100}} {
		id := fmt.Sprint(tt.kb)
		item := fmt.Sprintf(`{"id":%q,"n":%q}`, id, strings.Repeat("n", tt.kb<<10-len(res.Value)+1-len(id)))
		made := f.create(t, item, id)
		read, err := f.c.ReadItem(t.Context(), pk(id), id, nil)
		if err != nil || len(read.Value) != tt.kb<<10 {
			t.Fatalf("%v, %d bytes", err, len(read.Value))
		}
		replaced, err := f.c.ReplaceItem(t.Context(), pk(id), id, []byte(item), nil)
		if err != nil || made.RequestCharge != tt.insert || read.RequestCharge != tt.read || replaced.RequestCharge != tt.replace {
			t.Errorf("%d KB: %v, %v, %v, %v; want %v, %v, %v", tt.kb, made.RequestCharge, read.RequestCharge, replaced.RequestCharge, err, tt.insert, tt.read, tt.replace)
		}
	}
	precise := &azcosmos.IndexingPolicy{
		IndexingMode:  azcosmos.IndexingModeConsistent,
		IncludedPaths: []azcosmos.IncludedPath{{Path: "/a/?"}, {Path: "/b/*"}},
		ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}, {Path: "/a/*"}, {Path: "/b/?"}},
	}
	f = open(t, nil, azcosmos.ContainerProperties{IndexingPolicy: precise})
	if got := f.create(t, `{"id":"k","a":1,"b":2}`, "k").RequestCharge; got != 5.5+0.2 {
		t.Errorf("an insert of one indexed property is charged %v, want 5.7", got)
	}
	indexed := open(t, nil, azcosmos.ContainerProperties{})
	if got := indexed.create(t, `{"id":"k","a":1,"b":{"c":2,"d":[1,2]}}`, "k").RequestCharge; got != 5.5+5*0.2 {
		t.Errorf("an insert of five indexed properties is charged %v, want 6.5", got)
	}
}
