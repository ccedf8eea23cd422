package cosmos

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A scan returns every record, with any number of segments and pages, and no other items of the
// container.
func TestScan(t *testing.T) {
	f := open[session](t, &Options{ID: Prefix("session:"), PartitionKey: []KeyProperty{{Path: "/kind", Of: Fixed("session")}}})
	want := make(map[string]driver.Meta)
	for i := range 50 {
		key := fmt.Sprintf("%x-%d", i*5, i)
		want[key] = f.mustInsert(t, key, session{User: key}, lasting(time.Duration(i)*time.Minute+time.Hour), base)
	}
	pk := f.partitionKey(identity{partition: [maxLevels]string{"order"}})
	if _, err := f.container.CreateItem(t.Context(), pk, []byte(`{"id":"order:1","kind":"order"}`), nil); err != nil {
		t.Fatal(err)
	}
	for _, parts := range []int{1, 2, 7, 1000} {
		cursors, err := f.Segments(t.Context(), parts)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]driver.Meta)
		cost := 0.0
		for _, at := range cursors {
			for at != "" {
				page, err := f.another(t).Scan(t.Context(), at, 6)
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Records) > 6 {
					t.Errorf("a page of %d records, want at most 6", len(page.Records))
				}
				cost += page.Cost
				for _, r := range page.Records {
					if _, again := got[r.Key]; again {
						t.Errorf("%d parts: %s comes twice", parts, r.Key)
					}
					got[r.Key] = r.Meta
				}
				at = page.Next
			}
		}
		if len(got) != len(want) || cost <= 0 {
			t.Errorf("%d parts: %d records for %v units, want %d", parts, len(got), cost, len(want))
		}
		for key, m := range want {
			if got[key] != m {
				t.Errorf("%d parts: %s is %+v, want %+v", parts, key, got[key], m)
			}
		}
	}
	for _, bad := range []driver.Cursor{"", "x", "bm8"} {
		_, err := f.Scan(t.Context(), bad, 1)
		wantInvalid(t, "a cursor of another driver", err, "cursor")
	}
}
