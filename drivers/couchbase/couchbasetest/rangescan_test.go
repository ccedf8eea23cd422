package couchbasetest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
)

// scan returns the ids that gocb's own scan finds, in their order.
func scan(t *testing.T, c *gocb.Collection, kind gocb.ScanType, opts *gocb.ScanOptions) (ids []string) {
	t.Helper()
	res, err := c.Scan(kind, opts)
	if err != nil {
		t.Fatal(err)
	}
	for item := res.Next(); item != nil; item = res.Next() {
		ids = append(ids, item.ID())
		if opts != nil && opts.IDsOnly {
			continue
		}
		var v map[string]int
		if err := item.Content(&v); err != nil || fmt.Sprintf("user:%03d", v["n"]) != item.ID() {
			t.Errorf("%s has the content %v, %v", item.ID(), v, err)
		}
		if item.Cas() == 0 {
			t.Errorf("%s has no CAS", item.ID())
		}
	}
	if err := res.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

// gocb's scans find the same as on a server.
func TestRangeScan(t *testing.T) {
	node, c := start(t)
	if err := node.AddCollection(c.Bucket().Name(), "s", "other", nil); err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range 300 {
		id := fmt.Sprintf("user:%03d", i)
		if _, err := c.Insert(id, map[string]int{"n": i}, nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	other := c.Bucket().Scope("s").Collection("other")
	if _, err := other.Insert("elsewhere", 1, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Insert("mayfly", map[string]int{}, &gocb.InsertOptions{Expiry: time.Second}); err != nil {
		t.Fatal(err)
	}
	node.Advance(time.Minute)

	if got := scan(t, c, gocb.RangeScan{}, nil); !slices.Equal(got, all) {
		t.Errorf("a scan of documents found %d of %d", len(got), len(all))
	}
	for _, batch := range []uint32{1, 7, 1000} {
		if got := scan(t, c, gocb.RangeScan{}, &gocb.ScanOptions{IDsOnly: true, BatchItemLimit: &batch}); !slices.Equal(got, all) {
			t.Errorf("a scan in batches of %d found %d of %d", batch, len(got), len(all))
		}
	}
	ids := &gocb.ScanOptions{IDsOnly: true}
	if got := scan(t, c, gocb.NewRangeScanForPrefix("user:01"), ids); !slices.Equal(got, all[10:20]) {
		t.Errorf("a scan of a prefix found %v", got)
	}
	between := gocb.RangeScan{From: &gocb.ScanTerm{Term: "user:100"}, To: &gocb.ScanTerm{Term: "user:110", Exclusive: true}}
	if got := scan(t, c, between, ids); !slices.Equal(got, all[100:110]) {
		t.Errorf("a scan of a range found %v", got)
	}
	if got := scan(t, other, gocb.RangeScan{}, ids); !slices.Equal(got, []string{"elsewhere"}) {
		t.Errorf("a scan of another collection found %v", got)
	}
}

// Under Between an answer of several packets comes whole.
func TestRangeScanBetween(t *testing.T) {
	node, c := start(t)
	var all []string
	for i := range 200 { // some share a vbucket, and each fills a packet
		id := fmt.Sprintf("user:%03d", i)
		if _, err := c.Insert(id, map[string]int{"n": i, strings.Repeat("x", 9<<10): 0}, nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	node.Between(func(_ couchbasetest.Op, deliver func()) couchbasetest.Fault { deliver(); return couchbasetest.Fault{} })
	if got := scan(t, c, gocb.RangeScan{}, nil); !slices.Equal(got, all) {
		t.Errorf("the scan found %d of %d", len(got), len(all))
	}
}

func TestRangeScanFails(t *testing.T) {
	node, c := start(t)
	if _, err := c.Insert("a", 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := node.Inject(couchbasetest.Fault{Ops: []couchbasetest.Op{couchbasetest.OpScanContinue}, Status: memd.StatusInternalError, Count: 1000}); err != nil {
		t.Fatal(err)
	}
	res, err := c.Scan(gocb.RangeScan{}, &gocb.ScanOptions{IDsOnly: true})
	if err == nil {
		for res.Next() != nil {
		}
		err = res.Err()
	}
	if !errors.Is(err, gocb.ErrInternalServerFailure) {
		t.Errorf("the error is %v", err)
	}
}
