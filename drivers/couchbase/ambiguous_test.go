package couchbase_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A write that may have landed returns ErrAmbiguous, whatever lost its answer. A refused write
// and a read do not.
func TestAmbiguousWrites(t *testing.T) {
	short := couchbase.Options{Timeout: 50 * time.Millisecond}
	quick := couchbase.Options{RetryStrategy: failFast{}}
	for _, c := range []struct {
		name      string
		opts      couchbase.Options
		leaves    leaving
		fault     couchbasetest.Fault
		own       error
		ambiguous bool
	}{
		{"connection dropped before", couchbase.Options{}, stays, couchbasetest.Fault{Drop: true}, io.EOF, true},
		{"connection dropped after", couchbase.Options{}, stays, couchbasetest.Fault{Drop: true, Applied: true}, io.EOF, true},
		{"connection dropped, a strategy that repeats everything", couchbase.Options{RetryStrategy: always{}}, stays, couchbasetest.Fault{Drop: true, Applied: true}, io.EOF, true},
		{"no answer", short, stays, couchbasetest.Fault{Silent: true, Applied: true}, gocb.ErrAmbiguousTimeout, true},
		{"caller gone while waiting", couchbase.Options{}, meanwhile, couchbasetest.Fault{Silent: true, Applied: true}, context.Canceled, true},
		{"durability ambiguous", couchbase.Options{Durability: gocb.DurabilityLevelMajority}, stays, couchbasetest.Fault{Status: memd.StatusSyncWriteAmbiguous, Applied: true}, gocb.ErrDurabilityAmbiguous, true},
		{"durability impossible", couchbase.Options{Durability: gocb.DurabilityLevelMajority}, stays, couchbasetest.Fault{Status: memd.StatusDurabilityImpossible}, gocb.ErrDurabilityImpossible, false},
		{"temporary failure", quick, stays, couchbasetest.Fault{Status: memd.StatusTmpFail}, gocb.ErrTemporaryFailure, false},
		{"locked", quick, stays, couchbasetest.Fault{Status: memd.StatusLocked}, driver.ErrLocked, false},
		{"no access", couchbase.Options{}, stays, couchbasetest.Fault{Status: memd.StatusAccessError}, gocb.ErrAuthenticationFailure, false},
		{"caller gone before", couchbase.Options{}, before, couchbasetest.Fault{}, context.Canceled, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for name := range calls(nil, driver.Meta{}) {
				f := open(t)
				was := record(t, f)
				ctx, leave := context.WithCancel(t.Context())
				if c.leaves == before {
					leave()
				} else {
					fault := c.fault
					fault.Ops = []couchbasetest.Op{couchbasetest.OpInsert, couchbasetest.OpReplace, couchbasetest.OpRemove, couchbasetest.OpMutateIn}
					ok(t, "Inject", f.Inject(fault))
				}
				if c.leaves == meanwhile && !strings.HasPrefix(name, "Get") {
					writes := func(n couchbasetest.Counts) uint64 { return n.MutateIn + n.Insert + n.Replace + n.Remove }
					before := writes(f.Counts())
					go func() {
						defer leave()
						_ = f.Await(ctx, func(n couchbasetest.Counts) bool { return writes(n) > before })
					}()
				}
				err := calls(newDriver[profile](t, f, &c.opts), was)[name](ctx)
				for opts := c.opts; unsent(err); {
					opts.Timeout *= 2 // a busy machine may take longer to send
					err = calls(newDriver[profile](t, f, &opts), was)[name](ctx)
				}
				leave()
				if strings.HasPrefix(name, "Get") {
					if errors.Is(err, driver.ErrAmbiguous) {
						t.Errorf("%s: %v; a read lands nothing", name, err)
					}
					continue
				}
				if !errors.Is(err, c.own) || errors.Is(err, driver.ErrAmbiguous) != c.ambiguous {
					t.Errorf("%s: %v; want %v, and ambiguous: %t", name, err, c.own, c.ambiguous)
				}
				f.drain(t) // a short time-out may end before the node has read what was sent
				if left := f.ClearFaults(); left != 0 {
					t.Errorf("%s: the fault did not strike", name)
				}
			}
		})
	}
}

// unsent reports whether a call timed out before gocb had sent it.
func unsent(err error) bool {
	var timeout *gocb.TimeoutError
	return errors.As(err, &timeout) && timeout.LastDispatchedTo == ""
}

// leaving is the time after which a caller gives up.
type leaving int

const (
	stays leaving = iota
	before
	meanwhile
)

// A write that was not sent has not landed.
func TestUnsentWriteIsNotAmbiguous(t *testing.T) {
	node := couchbasetest.Start(t)
	defer node.Hang()()
	cluster, err := gocb.Connect(node.ConnectionString(), node.ClusterOptions())
	ok(t, "Connect", err)
	defer func() { _ = cluster.Close(nil) }()
	f := &fixture{node, cluster.Bucket(node.Bucket()).DefaultCollection()}
	d := newDriver[profile](t, f, &couchbase.Options{Timeout: 50 * time.Millisecond})
	now := driver.Floor(start)
	_, err = d.Insert(t.Context(), secret, profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
	if !errors.Is(err, gocb.ErrTimeout) || errors.Is(err, driver.ErrAmbiguous) {
		t.Errorf("Insert without a connection: %v; want a time-out that is not ambiguous", err)
	}
}

// always retries all failures, also writes that may have landed.
type always struct{}

func (always) RetryAfter(gocb.RetryRequest, gocb.RetryReason) gocb.RetryAction {
	return &gocb.WithDurationRetryAction{WithDuration: time.Millisecond}
}
