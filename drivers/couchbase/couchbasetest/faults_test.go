package couchbasetest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
)

func TestInjectedStatuses(t *testing.T) {
	for _, tt := range []struct {
		status memd.StatusCode
		want   error
	}{
		{memd.StatusTmpFail, gocb.ErrTemporaryFailure},
		{memd.StatusBusy, gocb.ErrTemporaryFailure},
		{memd.StatusLocked, gocb.ErrDocumentLocked},
		{memd.StatusSyncWriteInProgress, gocb.ErrDurableWriteInProgress},
		{memd.StatusSyncWriteAmbiguous, gocb.ErrDurabilityAmbiguous},
		{memd.StatusDurabilityImpossible, gocb.ErrDurabilityImpossible},
		{memd.StatusKeyNotFound, gocb.ErrDocumentNotFound},
		{memd.StatusAccessError, gocb.ErrAuthenticationFailure},
		{memd.StatusInternalError, gocb.ErrInternalServerFailure},
		{memd.StatusOutOfMemory, gocbcore.ErrMemdOutOfMemory},
	} {
		t.Run(tt.status.String(), func(t *testing.T) {
			node, col := start(t)
			must(t, node.Inject(couchbasetest.Fault{Status: tt.status}))
			_, err := col.Upsert("k", 1, &gocb.UpsertOptions{RetryStrategy: neverRetry{}})
			wantErr(t, err, tt.want)
			_, err = col.Get("k", nil)
			wantErr(t, err, gocb.ErrDocumentNotFound) // it was not carried out
		})
	}
}

func TestFaultsStrikeWhatTheyAreFor(t *testing.T) {
	node, col := start(t)
	never := neverRetry{}
	must(t, node.Inject(couchbasetest.Fault{
		Ops: []couchbasetest.Op{couchbasetest.OpTouch, couchbasetest.OpMutateIn}, Count: 2, Status: memd.StatusTmpFail,
	}))
	must(t, node.Inject(couchbasetest.Fault{Ops: []couchbasetest.Op{couchbasetest.OpTouch}, Status: memd.StatusBusy, Count: 3}))
	_, err := col.Upsert("k", 1, nil)
	must(t, err)
	for range 2 {
		_, err = col.Touch("k", time.Hour, &gocb.TouchOptions{RetryStrategy: never})
		var kv *gocb.KeyValueError
		if !errors.As(err, &kv) || kv.StatusCode != memd.StatusTmpFail {
			t.Fatalf("touch: %v, want the first fault", err)
		}
	}
	_, err = col.MutateIn("k", []gocb.MutateInSpec{gocb.UpsertSpec("x", 1, inXattr)}, &gocb.MutateInOptions{RetryStrategy: never})
	must(t, err)
	_, err = col.Touch("k", time.Hour, &gocb.TouchOptions{RetryStrategy: never})
	var kv *gocb.KeyValueError
	if !errors.As(err, &kv) || kv.StatusCode != memd.StatusBusy {
		t.Fatalf("touch: %v, want the second fault", err)
	}
	if left := node.ClearFaults(); left != 2 {
		t.Errorf("%d strikes left, want 2", left)
	}
	_, err = col.Touch("k", time.Hour, nil)
	must(t, err)
	if got := node.Counts(); got.Touch != 4 || got.Mutations != 3 {
		t.Errorf("counts %+v", got)
	}
}

func TestGocbRetriesThroughATemporaryFailure(t *testing.T) {
	node, col := start(t)
	must(t, node.Inject(couchbasetest.Fault{Count: 3, Status: memd.StatusTmpFail}))
	_, err := col.Upsert("k", 1, &gocb.UpsertOptions{Timeout: time.Minute})
	must(t, err)
	if got, want := node.Counts(), (couchbasetest.Counts{Upsert: 4, Mutations: 1}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

func TestAppliedFault(t *testing.T) {
	node, col := start(t)
	must(t, node.Inject(couchbasetest.Fault{Status: memd.StatusTmpFail, Applied: true}))
	_, err := col.Upsert("k", 1, &gocb.UpsertOptions{RetryStrategy: neverRetry{}})
	wantErr(t, err, gocb.ErrTemporaryFailure)
	if got := get[int](t, col, "k"); got != 1 {
		t.Errorf("document %d", got)
	}
}

func TestDrop(t *testing.T) {
	for _, applied := range []bool{false, true} {
		node, col := start(t)
		must(t, node.Inject(couchbasetest.Fault{Ops: []couchbasetest.Op{couchbasetest.OpUpsert}, Drop: true, Applied: applied}))
		_, err := col.Upsert("k", 1, &gocb.UpsertOptions{RetryStrategy: neverRetry{}})
		wantErr(t, err, io.EOF)
		// gocb reconnects by itself, and may resend a read.
		res, err := col.Exists("k", &gocb.ExistsOptions{Timeout: time.Minute})
		must(t, err)
		if res.Exists() != applied {
			t.Errorf("exists %v after a drop that was applied: %v", res.Exists(), applied)
		}
	}
}

func TestDropConnections(t *testing.T) {
	node, col := start(t)
	_, err := col.Upsert("k", 1, nil)
	must(t, err)
	if node.Connections() == 0 {
		t.Fatal("no connections")
	}
	node.DropConnections()
	res, err := col.Get("k", &gocb.GetOptions{Timeout: time.Minute})
	if writing := (*net.OpError)(nil); errors.As(err, &writing) {
		// gocb repeats a read that was sent, and not one that it was about to write when
		// it closed its own end (gocbcore v10.8.1, kvMux.handleOpRoutingResp). Now it has.
		res, err = col.Get("k", &gocb.GetOptions{Timeout: time.Minute})
	}
	must(t, err)
	var n int
	must(t, res.Content(&n))
}

// After Await of an operation that a fault hits, the fault is used up.
func TestFaultIsSpentBeforeItsOperationCounts(t *testing.T) {
	node := couchbasetest.Start(t)
	r := ready(t, node, allFeatures...)
	for n := range uint64(500) {
		must(t, node.Inject(couchbasetest.Fault{Silent: true}))
		r.send(memd.Packet{Command: memd.CmdGet, Key: []byte("k")})
		must(t, node.Await(t.Context(), func(c couchbasetest.Counts) bool { return c.Get > n }))
		if left := node.ClearFaults(); left != 0 {
			t.Fatalf("operation %d is counted, and its fault has not struck", n)
		}
	}
}

func TestSilence(t *testing.T) {
	node, col := start(t)
	must(t, node.Inject(couchbasetest.Fault{Silent: true, Applied: true}))
	err := timedOut(func(timeout time.Duration) error {
		_, err := col.Upsert("k", 1, &gocb.UpsertOptions{Timeout: timeout})
		return err
	})
	wantErr(t, err, gocb.ErrTimeout)
	wantErr(t, err, gocb.ErrAmbiguousTimeout)
	must(t, node.Inject(couchbasetest.Fault{Silent: true}))
	err = timedOut(func(timeout time.Duration) error {
		_, err := col.Get("k", &gocb.GetOptions{Timeout: timeout})
		return err
	})
	wantErr(t, err, gocb.ErrUnambiguousTimeout)
	if got := get[int](t, col, "k"); got != 1 {
		t.Errorf("document %d", got)
	}
}

func TestHang(t *testing.T) {
	node, col := start(t)
	_, err := col.Upsert("k", 1, nil)
	must(t, err)
	before := node.Counts()
	resume := node.Hang()
	err = timedOut(func(timeout time.Duration) error {
		_, err := col.Upsert("k", 2, &gocb.UpsertOptions{Timeout: timeout})
		return err
	})
	wantErr(t, err, gocb.ErrAmbiguousTimeout)
	if got := node.Counts().Since(before); got != (couchbasetest.Counts{}) {
		t.Errorf("a hanging node carried out %+v", got)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		_, err := col.Get("k", &gocb.GetOptions{Context: ctx, Timeout: time.Minute})
		answer <- err
	}()
	resume()
	resume()
	must(t, <-answer)
	// The requests that came in meanwhile were executed late: both came on one connection.
	if got := get[int](t, col, "k"); got != 2 {
		t.Errorf("document %d, want the late 2", got)
	}
}

func TestHangEndsWithTheNode(t *testing.T) {
	node, err := couchbasetest.New(nil)
	must(t, err)
	cluster, err := gocb.Connect(node.ConnectionString(), node.ClusterOptions())
	must(t, err)
	defer cluster.Close(nil)
	must(t, cluster.WaitUntilReady(time.Minute, management))
	bucket := cluster.Bucket(node.Bucket())
	must(t, bucket.WaitUntilReady(time.Minute, nil))
	node.Hang()
	_, err = bucket.DefaultCollection().Get("k", &gocb.GetOptions{Timeout: 50 * time.Millisecond})
	wantErr(t, err, gocb.ErrTimeout)
	must(t, node.Close()) // waits for every goroutine, the hanging ones too
	must(t, node.Close())
}

func TestLatency(t *testing.T) {
	node, col := start(t)
	_, err := col.Upsert("k", 1, nil)
	must(t, err)
	const latency = 250 * time.Millisecond
	node.SetLatency(latency)
	begin := time.Now()
	ops := []gocb.BulkOp{&gocb.GetOp{ID: "k"}, &gocb.GetOp{ID: "k"}, &gocb.GetOp{ID: "k"}, &gocb.GetOp{ID: "k"}}
	must(t, col.Do(ops, &gocb.BulkOpOptions{Timeout: time.Minute}))
	if took := time.Since(begin); took < latency {
		t.Errorf("four gets at once took %v with a latency of %v", took, latency)
	}
	node.SetLatency(0)
	_, err = col.Get("k", &gocb.GetOptions{Timeout: time.Minute})
	must(t, err)
}

func TestHold(t *testing.T) {
	node := couchbasetest.Start(t)
	r := ready(t, node, allFeatures...)
	var sent uint64
	// send returns once an answer to what was sent before is on its way, if it is not held:
	// the node hands on its answers before it reads the next request.
	send := func() {
		for range 2 {
			sent++
			r.send(set("k", "1"))
			await(t, node, func(c couchbasetest.Counts) bool { return c.Mutations == sent })
		}
	}
	silent := func(when string) {
		t.Helper()
		must(t, r.nc.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
		if n, err := r.nc.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%s: read %d bytes, %v; want no answer yet", when, n, err)
		}
		must(t, r.nc.SetReadDeadline(time.Now().Add(time.Minute)))
	}
	release := node.Hold()
	send()
	silent("while all answers are held")
	next := node.Hold()
	release()
	release()
	r.receive()
	r.receive()
	send()
	silent("when the answers of the first round are released")
	next()
	r.receive()
	r.receive()
	r.want(memd.StatusSuccess, set("k", "1")) // nothing is held any more
}

func TestInvalidFaults(t *testing.T) {
	node := couchbasetest.Start(t)
	for _, f := range []couchbasetest.Fault{
		{},
		{Drop: true, Silent: true},
		{Drop: true, Status: memd.StatusTmpFail},
		{Drop: true, Count: -1},
		{Drop: true, Ops: []couchbasetest.Op{memd.CmdHello}},
		{Drop: true, Ops: []couchbasetest.Op{0xee}},
	} {
		if err := node.Inject(f); !errors.Is(err, couchbasetest.ErrInvalid) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if left := node.ClearFaults(); left != 0 {
		t.Errorf("%d strikes armed", left)
	}
}
