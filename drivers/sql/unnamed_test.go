package sql

import (
	stdsql "database/sql"
	"testing"
)

// Keys that the driver cannot name, among those that it can: a scan reports each of them once,
// wherever a segment or a page ends.
func TestScanOfKeysThatNoRecordHas(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d := open[session](t, db, dialect, nil)
		keys := []string{"", " ", "a", "b", "c", "d", "e", "f"}
		if dialect == SQLite {
			keys = append(keys, "\xff\xfe", "c\xff")
		}
		for _, key := range keys {
			if _, err := db.ExecContext(t.Context(), d.dialect.bind("INSERT INTO "+d.quoted()+" (id, value) VALUES (?, '{}')"), key); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range []int{1, 4, 8} {
			for _, limit := range []int{1, 3, 300} {
				cursors, err := d.Segments(t.Context(), n)
				if err != nil {
					t.Fatalf("Segments(%d): %v", n, err)
				}
				seen := make(map[string]int)
				for _, at := range cursors {
					for pages := 0; at != ""; pages++ {
						page, err := d.Scan(t.Context(), at, limit)
						if err != nil || pages > len(keys) {
							t.Fatalf("page %d of %d segments: %v", pages, n, err)
						}
						for _, r := range page.Records {
							seen[r.Key]++
						}
						at = page.Next
					}
				}
				for _, key := range keys {
					if seen[key] != 1 {
						t.Errorf("in %d segments, by %d, %q is met %d times", n, limit, key, seen[key])
					}
				}
			}
		}
	})
}
