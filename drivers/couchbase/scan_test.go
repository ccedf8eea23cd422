package couchbase_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"
	"github.com/couchbase/gocbcore/v10/memd"

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

// A scan goes on after a temporary failure as Options.RetryStrategy says, within Options.Timeout.
func TestScanAsksTheStrategy(t *testing.T) {
	for _, op := range []couchbasetest.Op{couchbasetest.OpScanCreate, couchbasetest.OpScanContinue} {
		for _, status := range []memd.StatusCode{memd.StatusTmpFail, memd.StatusBusy} {
			f := open(t)
			var s strategy
			d := newDriver[profile](t, f, &couchbase.Options{RetryStrategy: &s})
			at := scanned(t, d)
			for pause, want := range map[time.Duration][]uint32{time.Millisecond: {0, 1, 2}, 0: {0}, time.Hour: {0}} {
				s = strategy{pause: pause}
				ok(t, "Inject", f.Inject(couchbasetest.Fault{Ops: []couchbasetest.Op{op}, Status: status, Count: 3}))
				p, err := d.Scan(t.Context(), at, 10)
				if left := f.ClearFaults(); !slices.Equal(s.asked, want) || left != 3-len(want) {
					t.Errorf("%s answered with %#x: after retries %v the strategy said %v, and %d of 3 faults are left; want %v", op.Name(), uint16(status), s.asked, pause, left, want)
				}
				if len(want) == 3 {
					ok(t, "Scan", err)
					isScanned(t, p)
				} else if !errors.Is(err, gocb.ErrTemporaryFailure) && !errors.Is(err, gocbcore.ErrBusy) {
					t.Errorf("Scan: %v, want the answer", err)
				}
			}
		}
	}
}

// strategy retries after pause; zero: never.
type strategy struct {
	pause time.Duration
	asked []uint32 // after so many retries
}

func (s *strategy) RetryAfter(req gocb.RetryRequest, _ gocb.RetryReason) gocb.RetryAction {
	s.asked = append(s.asked, req.RetryAttempts())
	if s.pause == 0 {
		return &gocb.NoRetryRetryAction{}
	}
	return &gocb.WithDurationRetryAction{WithDuration: s.pause}
}

// A scan may end while its keys are on their way.
func TestScanEndsAmongKeys(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	life := driver.Life{CreatedAt: driver.Floor(start), ExpiresAt: driver.Floor(start) + 3600e3}
	for i, n := 0, 0; n < 500; i++ { // of the vbucket 0; 100 kB, in some 12 packets
		key := fmt.Sprintf("%0200d", i)
		if crc32.ChecksumIEEE([]byte(key))>>16&0x7fff%1024 != 0 {
			continue
		}
		_, err := d.Insert(t.Context(), key, profile{}, life, driver.Floor(start))
		ok(t, "Insert", err)
		n++
	}
	at, err := d.Segments(t.Context(), 1024)
	ok(t, "Segments", err)
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(10*time.Millisecond))
		if _, err := d.Scan(ctx, at[0], 2000); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Scan: %v", err)
		}
		cancel()
	}
}

// A call that ends with its context as the bucket is found to be ready returns.
func TestSegmentsEnds(t *testing.T) {
	d := newDriver[profile](t, open(t), nil)
	for range 5000 {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(200*time.Microsecond))
		ended := make(chan error, 1)
		go func() {
			_, err := d.Segments(ctx, 8)
			ended <- err
		}()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Segments: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("Segments outlives its context")
		}
		cancel()
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

// A cursor beyond the bucket's vbuckets is refused: another bucket has them.
func TestScanBeyondTheBucket(t *testing.T) {
	f := open(t)
	d := newDriver[profile](t, f, nil)
	all, err := d.Segments(t.Context(), 1<<16)
	ok(t, "Segments", err)
	n := len(all)
	for _, from := range []int{0, n - 1, n, 1 << 16} {
		p, err := d.Scan(t.Context(), driver.EncodeCursor(map[string]int{"v": from, "to": max(n, from) + 1}), 10)
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("from vbucket %d of %d: %+v, %v; want a refusal", from, n, p, err)
		}
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
