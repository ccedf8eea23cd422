package couchbase_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// start is the time of most tests' clocks: not a whole second.
var start = time.Date(2026, 5, 17, 9, 30, 15, 250e6, time.UTC)

type profile struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// fixture is a node whose clock stands at start, and a collection of it.
type fixture struct {
	*couchbasetest.Node
	c *gocb.Collection
}

func open(t testing.TB) *fixture {
	t.Helper()
	node := couchbasetest.Start(t)
	node.SetTime(start)
	return &fixture{node, node.Cluster(t).Bucket(node.Bucket()).DefaultCollection()}
}

// during returns what the node counted while f ran.
func (f *fixture) during(run func()) couchbasetest.Counts {
	before := f.Counts()
	run()
	return f.Counts().Since(before)
}

// drain returns once the node has handled all earlier requests: it handles the requests of a
// connection in order.
func (f *fixture) drain(t testing.TB) {
	t.Helper()
	before := f.Counts().Exists
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = f.c.Exists("behind", &gocb.ExistsOptions{Context: ctx})
	}()
	ok(t, "Await", f.Await(ctx, func(c couchbasetest.Counts) bool { return c.Exists > before }))
	cancel()
	<-done
}

func newDriver[T any](t testing.TB, f *fixture, opts *couchbase.Options) *couchbase.Driver[T] {
	t.Helper()
	var o couchbase.Options
	if opts != nil {
		o = *opts
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute // longer than any load
	}
	d, err := couchbase.New[T](f.c, &o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newStore[T any](t testing.TB, f *fixture, d driver.Driver[T], p slidingttl.Policy, opts *slidingttl.Options[T]) *slidingttl.Store[T] {
	t.Helper()
	var o slidingttl.Options[T]
	if opts != nil {
		o = *opts
	}
	if o.Now == nil {
		o.Now = f.Now
	}
	if o.TouchWait == 0 {
		o.TouchWait = time.Minute // longer than any latency or load
	}
	s, err := slidingttl.New(d, p, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func ok(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// stored reads the expiry, in Unix seconds, and the created_at xattr as another
// program would.
func stored(t testing.TB, c *gocb.Collection, key string) (expiry int64, createdAt int64) {
	t.Helper()
	res, err := c.LookupIn(key, []gocb.LookupInSpec{
		gocb.GetSpec("$document.exptime", &gocb.GetSpecOptions{IsXattr: true}),
		gocb.GetSpec("slidingttl.created_at", &gocb.GetSpecOptions{IsXattr: true}),
	}, nil)
	ok(t, "LookupIn", err)
	ok(t, "exptime", res.ContentAt(0, &expiry))
	if err := res.ContentAt(1, &createdAt); err != nil && !errors.Is(err, gocb.ErrPathNotFound) {
		t.Fatal(err)
	}
	return expiry, createdAt
}

// plant writes a document as another program would, with an absolute expiry, zero for
// none, and without xattrs.
func plant(ctx context.Context, c *gocb.Collection, key string, body []byte, flags, expiry uint32) error {
	if _, err := c.Remove(key, &gocb.RemoveOptions{Context: ctx}); err != nil && !errors.Is(err, gocb.ErrDocumentNotFound) {
		return err
	}
	agent, err := c.Bucket().Internal().IORouter()
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	_, err = agent.Add(gocbcore.AddOptions{
		Key:            []byte(key),
		Value:          body,
		Flags:          flags,
		Expiry:         expiry,
		ScopeName:      c.ScopeName(),
		CollectionName: c.Name(),
		Deadline:       time.Now().Add(10 * time.Second),
	}, func(_ *gocbcore.StoreResult, err error) { done <- err })
	if err != nil {
		return err
	}
	return <-done
}

var jsonFlags = gocbcore.EncodeCommonFlags(gocbcore.JSONType, gocbcore.NoCompression)
