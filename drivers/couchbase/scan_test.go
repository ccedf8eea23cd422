package couchbase_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A scan that loses its connection, before or after the server has read, goes on with another one.
func TestScanLosesItsConnection(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	at := scanned(t, d)
	for i := range 6 {
		ok(t, "Inject", f.Inject(couchbasetest.Fault{Ops: []couchbasetest.Op{couchbasetest.OpScanContinue}, Drop: true, Applied: i%2 == 0}))
		p, err := d.Scan(t.Context(), at, 10)
		ok(t, "Scan", err)
		isScanned(t, p)
	}
	if n := f.ClearFaults(); n > 0 {
		t.Errorf("%d faults met no scan", n)
	}
}

// A scan beside a node that is down fails, and the process goes on.
func TestScanBesideALostNode(t *testing.T) {
	at := scanned(t, newDriver[profile](t, open(t), nil))
	node, err := couchbasetest.New(&couchbasetest.Options{NodeDown: true})
	ok(t, "New", err)
	t.Cleanup(func() { _ = node.Close() })
	node.SetTime(start)
	cluster, err := gocb.Connect(node.ConnectionString(), node.ClusterOptions())
	ok(t, "Connect", err)
	t.Cleanup(func() { _ = cluster.Close(nil) })
	f := &fixture{node, cluster.Bucket(node.Bucket()).DefaultCollection()}
	insertScanned(t, newDriver[profile](t, f, nil))
	d := newDriver[profile](t, f, &couchbase.Options{Timeout: time.Second})
	if _, err := d.Scan(t.Context(), at, 10); !errors.Is(err, gocb.ErrTimeout) {
		t.Errorf("Scan: %v, want a time-out", err)
	}
}

// scanned inserts the records k0 to k4, and returns where to scan for them.
func scanned(t *testing.T, d *couchbase.Driver[profile]) driver.Cursor {
	t.Helper()
	insertScanned(t, d)
	at, err := d.Segments(t.Context(), 1)
	ok(t, "Segments", err)
	return at[0]
}

func isScanned(t *testing.T, p driver.Page) {
	t.Helper()
	var keys []string
	for _, r := range p.Records {
		keys = append(keys, r.Key)
	}
	slices.Sort(keys)
	if want := []string{"k0", "k1", "k2", "k3", "k4"}; !slices.Equal(keys, want) || p.Next != "" {
		t.Errorf("scanned %v and %q, want %v and no more", keys, p.Next, want)
	}
}

func insertScanned(t *testing.T, d *couchbase.Driver[profile]) {
	t.Helper()
	for n := range 5 {
		life := driver.Life{CreatedAt: driver.Floor(start), ExpiresAt: driver.Floor(start) + 3600e3}
		_, err := d.Insert(t.Context(), fmt.Sprint("k", n), profile{Count: n}, life, driver.Floor(start))
		ok(t, "Insert", err)
	}
}
