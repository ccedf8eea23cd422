//go:build !race

// These tests drop connections on which more than one request is under way. They run without the
// race detector, which finds gocbcore at fault: it may send a request again while the first attempt
// is still being written (v10.8.1: kvMux.RouteRequest writes what memd.Conn.WritePacket reads).

package couchbase_test

import (
	"context"
	"sync"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// No read fails because connections drop: neither one that was sent nor one that was about to
// be, whose connection gocbcore has closed by then.
func TestReadsOverDroppedConnections(t *testing.T) {
	f := open(t)
	record(t, f)
	d := newDriver[profile](t, f, nil)
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if _, err := d.Get(t.Context(), secret); err != nil {
					t.Errorf("a read: %v", err)
					stop()
				}
			}
		})
	}
	for range 40 {
		f.DropConnections()
		before := f.Counts().LookupIn
		if f.Await(ctx, func(c couchbasetest.Counts) bool { return c.LookupIn > before+20 }) != nil {
			break
		}
	}
	stop()
	readers.Wait()
}

// An Insert with Options.Retain, for one, sends its write and a lookup together.
func TestResent(t *testing.T) {
	for name, opts := range configurations {
		if !full(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			h := testNode(f, f.c, opts)
			h.Cases = resent
			drivertest.Run(t, h)
		})
	}
}
