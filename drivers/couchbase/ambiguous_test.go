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

// A write that may have landed says so, whatever kept its answer from coming; one that
// was refused does not, nor does a read.
func TestAmbiguousWrites(t *testing.T) {
	short := couchbase.Options{Timeout: 50 * time.Millisecond}
	quick := couchbase.Options{RetryStrategy: failFast{}}
	for _, c := range []struct {
		name      string
		opts      couchbase.Options
		patience  time.Duration // of the caller; zero: no end
		fault     couchbasetest.Fault
		own       error
		ambiguous bool
	}{
		{"connection dropped before", couchbase.Options{}, 0, couchbasetest.Fault{Drop: true}, io.EOF, true},
		{"connection dropped after", couchbase.Options{}, 0, couchbasetest.Fault{Drop: true, Applied: true}, io.EOF, true},
		{"connection dropped, a strategy that repeats everything", couchbase.Options{RetryStrategy: always{}}, 0, couchbasetest.Fault{Drop: true, Applied: true}, io.EOF, true},
		{"no answer", short, 0, couchbasetest.Fault{Silent: true, Applied: true}, gocb.ErrAmbiguousTimeout, true},
		{"no answer in the caller's time", couchbase.Options{}, 50 * time.Millisecond, couchbasetest.Fault{Silent: true, Applied: true}, context.DeadlineExceeded, true},
		{"durability ambiguous", couchbase.Options{Durability: gocb.DurabilityLevelMajority}, 0, couchbasetest.Fault{Status: memd.StatusSyncWriteAmbiguous, Applied: true}, gocb.ErrDurabilityAmbiguous, true},
		{"durability impossible", couchbase.Options{Durability: gocb.DurabilityLevelMajority}, 0, couchbasetest.Fault{Status: memd.StatusDurabilityImpossible}, gocb.ErrDurabilityImpossible, false},
		{"temporary failure", quick, 0, couchbasetest.Fault{Status: memd.StatusTmpFail}, gocb.ErrTemporaryFailure, false},
		{"locked", quick, 0, couchbasetest.Fault{Status: memd.StatusLocked}, driver.ErrLocked, false},
		{"no access", couchbase.Options{}, 0, couchbasetest.Fault{Status: memd.StatusAccessError}, gocb.ErrAuthenticationFailure, false},
		{"caller gone before", couchbase.Options{}, -1, couchbasetest.Fault{}, context.DeadlineExceeded, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for name := range calls(nil, driver.Meta{}) {
				f := open(t)
				call := calls(newDriver[profile](t, f, &c.opts), record(t, f))[name]
				if c.patience >= 0 {
					fault := c.fault
					fault.Ops = []couchbasetest.Op{couchbasetest.OpInsert, couchbasetest.OpReplace, couchbasetest.OpRemove, couchbasetest.OpMutateIn}
					ok(t, "Inject", f.Inject(fault))
				}
				ctx, cancel := context.WithCancel(t.Context())
				if c.patience != 0 {
					ctx, cancel = context.WithTimeout(ctx, c.patience)
				}
				err := call(ctx)
				cancel()
				if strings.HasPrefix(name, "Get") {
					if errors.Is(err, driver.ErrAmbiguous) {
						t.Errorf("%s: %v; a read lands nothing", name, err)
					}
					continue
				}
				if !errors.Is(err, c.own) || errors.Is(err, driver.ErrAmbiguous) != c.ambiguous {
					t.Errorf("%s: %v; want %v, and ambiguous: %t", name, err, c.own, c.ambiguous)
				}
				if left := f.ClearFaults(); left != 0 {
					t.Errorf("%s: the fault did not strike", name)
				}
			}
		})
	}
}

// A write that never left this process has not landed.
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

// always repeats whatever failed, also what may have landed.
type always struct{}

func (always) RetryAfter(gocb.RetryRequest, gocb.RetryReason) gocb.RetryAction {
	return &gocb.WithDurationRetryAction{WithDuration: time.Millisecond}
}
