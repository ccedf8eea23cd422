package couchbase_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A scan that loses its connection returns an error. The next one, on a new connection, finds
// all records.
func TestScanLosesItsConnection(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	const records = 5
	for n := range records {
		life := driver.Life{CreatedAt: driver.Floor(start), ExpiresAt: driver.Floor(start) + 3600e3}
		_, err := d.Insert(t.Context(), fmt.Sprint("k", n), profile{Count: n}, life, driver.Floor(start))
		ok(t, "Insert", err)
	}
	at, err := d.Segments(t.Context(), 1)
	ok(t, "Segments", err)
	for range 5 {
		ok(t, "Inject", f.Inject(couchbasetest.Fault{Ops: []couchbasetest.Op{couchbasetest.OpScanContinue}, Drop: true}))
		if _, err := d.Scan(t.Context(), at[0], 10); err == nil {
			t.Error("a scan without its connection succeeds")
		}
		var p driver.Page
		for end := time.Now().Add(time.Minute); ; {
			if p, err = d.Scan(t.Context(), at[0], 10); err == nil || time.Now().After(end) {
				break
			}
		}
		if err != nil || len(p.Records) != records {
			t.Errorf("the next scan: %d records, %v; want %d", len(p.Records), err, records)
		}
	}
}
