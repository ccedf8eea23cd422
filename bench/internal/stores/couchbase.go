package stores

import (
	"context"
	"fmt"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

const nodeName = "node"

// node is the store's own process. Asked for anything it says where it listens and how
// many operations have changed a document.
func node() runner.Contestant {
	return runner.Serving(nodeName, func() (func(task) (runner.Sample, error), error) {
		n, err := couchbasetest.New(nil)
		if err != nil {
			return nil, err
		}
		var port float64
		_, err = fmt.Sscanf(n.ConnectionString(), "couchbase://127.0.0.1:%f", &port)
		return func(task) (runner.Sample, error) {
			c := n.Counts()
			operations := c.Get + c.LookupIn + c.MutateIn + c.Insert + c.Replace + c.Upsert + c.Touch + c.GetAndTouch
			return runner.Sample{"port": port, "mutations": float64(c.Mutations), "operations": float64(operations)}, nil
		}, err
	})
}

var couchbaseContenders = []contender{
	{name: bareName, open: onCouchbase(10, 0, nil, bareLookup)},
	{name: naiveName, open: onCouchbase(10, 0, nil, getThenTouch)},
	{name: atOnceName, open: onCouchbase(10, 0, nil, getAndTouch)},
	{name: exactName, open: onCouchbase(0, 0, nil, nil)},
	{name: own1, open: onCouchbase(1, 0, nil, nil)},
	{name: own10, open: onCouchbase(10, 0, nil, nil)},
	{name: observed, open: onCouchbase(10, 0, watched(), nil)},
}

type couchbaseGet func(ctx context.Context, key string) (session, error)

// openCollection returns a collection and a driver of it that retains the dead for so long.
func openCollection(address string, retain time.Duration) (*gocb.Collection, *couchbase.Driver[session], error) {
	cluster, err := gocb.Connect(address, gocb.ClusterOptions{Authenticator: gocb.PasswordAuthenticator{
		Username: couchbasetest.DefaultUsername, Password: couchbasetest.DefaultPassword,
	}})
	if err != nil {
		return nil, nil, err
	}
	bucket := cluster.Bucket(couchbasetest.DefaultBucket)
	if err := bucket.WaitUntilReady(30*time.Second, nil); err != nil {
		return nil, nil, err
	}
	c := bucket.DefaultCollection()
	d, err := couchbase.New[session](c, &couchbase.Options{Retain: retain})
	return c, d, err
}

// onCouchbase connects. Documents are put by a store with this slack that retains the dead
// for so long, and read by it if get is nil. What is written the node counts.
func onCouchbase(slackPercent, retain time.Duration, opts *slidingttl.Options[session], get func(*gocb.Collection) couchbaseGet) func(context.Context, string) (way, error) {
	return func(ctx context.Context, address string) (way, error) {
		c, d, err := openCollection(address, retain)
		if err != nil {
			return way{}, err
		}
		s, err := slidingttl.New(d, policy(slackPercent), opts)
		if err != nil {
			return way{}, err
		}
		w := way{get: s.Get, put: insert(s), spent: func() spent { return spent{} }}
		if get != nil {
			w.get = get(c)
		}
		return w, nil
	}
}

// watched has touches bounded and all reads and touches seen.
func watched() *slidingttl.Options[session] {
	return &slidingttl.Options[session]{
		Budget: 1000,
		Observer: &slidingttl.Observer{
			Read:  func(context.Context, slidingttl.ReadEvent) {},
			Touch: func(context.Context, slidingttl.TouchEvent) {},
		},
	}
}

// bareLookup is the read that the driver makes, by hand.
func bareLookup(c *gocb.Collection) couchbaseGet {
	xattr := &gocb.GetSpecOptions{IsXattr: true}
	return func(ctx context.Context, key string) (s session, err error) {
		res, err := c.LookupIn(key, []gocb.LookupInSpec{
			gocb.GetSpec("$document.exptime", xattr),
			gocb.GetSpec("slidingttl.created_at", xattr),
			gocb.GetSpec("", nil),
		}, &gocb.LookupInOptions{Context: ctx})
		if err != nil {
			return s, err
		}
		var expiry, created int64
		if err := res.ContentAt(0, &expiry); err != nil {
			return s, err
		}
		if err := res.ContentAt(1, &created); err != nil {
			return s, err
		}
		return s, res.ContentAt(2, &s)
	}
}

func getThenTouch(c *gocb.Collection) couchbaseGet {
	return func(ctx context.Context, key string) (s session, err error) {
		res, err := c.Get(key, &gocb.GetOptions{Context: ctx})
		if err != nil {
			return s, err
		}
		if err := res.Content(&s); err != nil {
			return s, err
		}
		_, err = c.Touch(key, idleTimeout, &gocb.TouchOptions{Context: ctx})
		return s, err
	}
}

func getAndTouch(c *gocb.Collection) couchbaseGet {
	return func(ctx context.Context, key string) (s session, err error) {
		res, err := c.GetAndTouch(key, idleTimeout, &gocb.GetAndTouchOptions{Context: ctx})
		if err != nil {
			return s, err
		}
		return s, res.Content(&s)
	}
}
