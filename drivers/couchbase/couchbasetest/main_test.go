package couchbasetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
)

// TestMain fails if a goroutine of the node, or of gocb, outlives the tests,
// with one exception: if a connection ends during its login, gocbcore v10.8.1 sends two
// results to a channel with room for one. The tests of wrong passwords and of nodes that
// go away end logins on purpose.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(
		"github.com/couchbase/gocbcore/v10.(*memdClientDialerComponent).buildAuthHandler.func1.2"))
}

// epoch is the time at which tests stop the node's clock: not a round number of seconds.
var epoch = time.Date(2026, 3, 1, 12, 34, 56, 789_000_000, time.UTC)

// start runs a node whose clock is stopped at epoch, and connects to it.
func start(t *testing.T) (*couchbasetest.Node, *gocb.Collection) {
	t.Helper()
	node := couchbasetest.Start(t)
	node.SetTime(epoch)
	return node, node.Cluster(t).Bucket(node.Bucket()).DefaultCollection()
}

// must ends the test unless err is nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr ends the test unless err is one of its kind.
func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// await ends the test unless reached becomes true for the node's counts.
func await(t *testing.T, node *couchbasetest.Node, reached func(couchbasetest.Counts) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := node.Await(ctx, reached); err != nil {
		t.Fatalf("%v: the node has counted %+v", err, node.Counts())
	}
}

// timedOut makes a call that must time out after gocb has sent it. It repeats the call with a
// longer time-out until that is so, since a busy machine may be slower than a short one.
func timedOut(call func(timeout time.Duration) error) error {
	for timeout := 50 * time.Millisecond; ; timeout *= 2 {
		err := call(timeout)
		var own *gocb.TimeoutError
		if !errors.As(err, &own) || own.LastDispatchedTo != "" || timeout > time.Minute {
			return err
		}
	}
}

// neverRetry makes gocb return errors that it would otherwise retry until its timeout.
type neverRetry struct{}

func (neverRetry) RetryAfter(gocb.RetryRequest, gocb.RetryReason) gocb.RetryAction {
	return &gocb.NoRetryRetryAction{}
}
