package couchbase_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// reads are the operations that write nothing.
var reads = []couchbasetest.Op{
	couchbasetest.OpGet, couchbasetest.OpExists, couchbasetest.OpLookupIn,
	couchbasetest.OpScanCreate, couchbasetest.OpScanContinue, couchbasetest.OpScanCancel,
}

// gated passes the writes to a node through a gate.
func gated(t testing.TB, node *couchbasetest.Node) *drivertest.Gate {
	g := new(drivertest.Gate)
	node.Between(func(op couchbasetest.Op, deliver func()) couchbasetest.Fault {
		if slices.Contains(reads, op) {
			deliver()
			return couchbasetest.Fault{}
		}
		answer := g.Pass(deliver)
		return couchbasetest.Fault{Drop: answer == drivertest.Reset, Silent: answer == drivertest.Silent}
	})
	t.Cleanup(func() { node.Between(nil) })
	return g
}

// elsewhere makes drivers as in another process, with their own connections, because the node
// executes the requests of one connection in order. They can compare clocks.
func elsewhere(t testing.TB, node *couchbasetest.Node, c *gocb.Collection, opts couchbase.Options) func() driver.Driver[drivertest.Value] {
	connect := sync.OnceValue(func() *gocb.Collection {
		return node.Cluster(t).Bucket(node.Bucket()).Scope(c.ScopeName()).Collection(c.Name())
	})
	opts.ProbeKey = "probe"
	return func() driver.Driver[drivertest.Value] {
		again, err := couchbase.New[drivertest.Value](connect(), &opts)
		ok(t, "New", err)
		return again
	}
}

// loadHostile writes a record that no driver writes.
func loadHostile(ctx context.Context, c *gocb.Collection, opts couchbase.Options, r drivertest.HostileRecord) error {
	if r.Alien {
		return errors.ErrUnsupported
	}
	var code gocb.Transcoder = gocb.NewJSONTranscoder()
	if opts.Transcoder != nil {
		code = opts.Transcoder
	}
	body, flags, err := code.Encode(drivertest.Value{Text: strings.Repeat("x", r.Size)})
	if err != nil {
		return err
	}
	path, xattr := createdPath(opts)
	if !xattr && r.CreatedAt != 0 {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			return err
		}
		fields[path], _ = json.Marshal(r.CreatedAt)
		if body, err = json.Marshal(fields); err != nil {
			return err
		}
	}
	err = plant(ctx, c, r.Key, body, flags, uint32(r.ExpiresAt.Unix()))
	if errors.Is(err, gocb.ErrInvalidArgument) || errors.Is(err, gocb.ErrValueTooLarge) {
		return errors.Join(errors.ErrUnsupported, err)
	}
	if err == nil && xattr && r.CreatedAt != 0 {
		_, err = c.MutateIn(r.Key, []gocb.MutateInSpec{
			gocb.UpsertSpec(path, r.CreatedAt, &gocb.UpsertSpecOptions{IsXattr: true, CreatePath: true}),
		}, &gocb.MutateInOptions{PreserveExpiry: true, Context: ctx})
	}
	if err == nil && r.Guarded {
		_, err = c.GetAndLock(r.Key, 15*time.Second, &gocb.GetAndLockOptions{Context: ctx})
	}
	return err
}
