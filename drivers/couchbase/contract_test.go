package couchbase_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/internal/anyvalue"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// configurations are the layouts. Those in inFull run the whole contract, because they differ
// most: in place, path, operations and retention. The others run the cases that
// drivertest.OfLayout chooses, and at night (-tags night) the whole contract too.
var configurations = map[string]couchbase.Options{
	"xattr":   {},
	"path":    {CreatedPath: "app.ttl.born", Retain: time.Hour},
	"body":    {CreatedIn: couchbase.Body},
	"field":   {CreatedIn: couchbase.Body, CreatedPath: "bornAt", Retain: time.Hour},
	"coded":   {Transcoder: prefixed{}},
	"durable": {Durability: gocb.DurabilityLevelMajority},
}

var inFull = []string{"xattr", "field"}

// allCases makes every layout run the whole contract.
var allCases bool

// full reports whether that layout is held to the whole contract.
func full(layout string) bool { return allCases || slices.Contains(inFull, layout) }

// chosen are the cases of that layout. TestResent has those that break a connection.
func chosen(layout string) func(string) bool {
	return func(name string) bool { return !resent(name) && (full(layout) || drivertest.OfLayout(name)) }
}

func resent(name string) bool { return strings.HasPrefix(name, "resent/") }

// prefixed stores values as documents that are not JSON, though their flags say so.
type prefixed struct{}

func (prefixed) Encode(v any) ([]byte, uint32, error) {
	b, err := json.Marshal(anyvalue.Addressed(v))
	return append([]byte{0}, b...), jsonFlags, err
}

func (prefixed) Decode(b []byte, flags uint32, into any) error {
	if flags != 0 && flags != jsonFlags || len(b) == 0 || b[0] != 0 {
		return errors.New("not a prefixed document")
	}
	return json.Unmarshal(b[1:], into)
}

// TestContract runs the suite against couchbasetest, or against the server that the
// environment names.
func TestContract(t *testing.T) {
	for name, opts := range configurations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if os.Getenv("SLIDINGTTL_COUCHBASE") != "" {
				drivertest.Run(t, realServer(t, opts))
				return
			}
			f := open(t)
			h := testNode(f, f.c, opts)
			h.Cases = chosen(name)
			drivertest.Run(t, h)
		})
	}
	t.Run("collection", func(t *testing.T) {
		t.Parallel()
		if os.Getenv("SLIDINGTTL_COUCHBASE") != "" {
			return // the environment names the collection
		}
		f := open(t)
		ok(t, "AddCollection", f.AddCollection(f.Bucket(), "tenant", "sessions", nil))
		h := testNode(f, f.c.Bucket().Scope("tenant").Collection("sessions"), couchbase.Options{})
		h.Cases = chosen("collection")
		drivertest.Run(t, h)
	})
}

// lacks are the features that Couchbase cannot have.
var lacks = map[drivertest.Feature]string{
	drivertest.Local: "the store is a server",
	drivertest.Clock: "the server tells its time only together with a document",
}

func testNode(f *fixture, c *gocb.Collection, opts couchbase.Options) drivertest.Harness {
	return drivertest.Harness{
		Lacks: lacks,
		Open: func(t testing.TB) *drivertest.Backend {
			b := backend(t, c, opts)
			b.Now, b.Wait = f.Now, f.Advance
			b.Fail = func() func() {
				ok(t, "Inject", f.Inject(couchbasetest.Fault{Status: memd.StatusInternalError, Count: 1 << 20}))
				return func() { f.ClearFaults() }
			}
			b.Own = func(err error) bool {
				var own *gocb.KeyValueError
				return errors.As(err, &own) && errors.Is(err, gocb.ErrInternalServerFailure)
			}
			b.Hang = f.Hang
			b.Gate, b.Again = gated(t, f.Node), elsewhere(t, f.Node, c, opts)
			b.Apart = func(d time.Duration) { f.SetTime(time.Now().Add(d)) }
			return b
		},
	}
}

// realServer is the server at SLIDINGTTL_COUCHBASE, a connection string, with
// SLIDINGTTL_COUCHBASE_USER, _PASSWORD and _BUCKET, and _SCOPE and _COLLECTION if it is
// not to be the default ones.
func realServer(t *testing.T, opts couchbase.Options) drivertest.Harness {
	cluster, err := gocb.Connect(os.Getenv("SLIDINGTTL_COUCHBASE"), gocb.ClusterOptions{
		Authenticator: gocb.PasswordAuthenticator{
			Username: os.Getenv("SLIDINGTTL_COUCHBASE_USER"),
			Password: os.Getenv("SLIDINGTTL_COUCHBASE_PASSWORD"),
		},
	})
	ok(t, "Connect", err)
	t.Cleanup(func() { _ = cluster.Close(nil) })
	bucket := cluster.Bucket(os.Getenv("SLIDINGTTL_COUCHBASE_BUCKET"))
	ok(t, "WaitUntilReady", bucket.WaitUntilReady(30*time.Second, nil))
	named := func(variable string) string { return cmp.Or(os.Getenv("SLIDINGTTL_COUCHBASE_"+variable), "_default") }
	collection := bucket.Scope(named("SCOPE")).Collection(named("COLLECTION"))

	lacking := map[drivertest.Feature]string{
		drivertest.Fail:  "a real server does not fail on demand",
		drivertest.Hang:  "a real server does not hang on demand",
		drivertest.Gated: "no write is stopped on its way to a real server",
		drivertest.Apart: "a real server's clock stays as it is",
	}
	for f, why := range lacks {
		lacking[f] = why
	}
	return drivertest.Harness{
		Lacks:    lacking,
		Parallel: true,
		Open: func(t testing.TB) *drivertest.Backend {
			return backend(t, collection, opts)
		},
	}
}

func backend(t testing.TB, c *gocb.Collection, opts couchbase.Options) *drivertest.Backend {
	d, err := couchbase.New[drivertest.Value](c, &opts)
	ok(t, "New", err)
	maxKey := 250
	if c.Name() != "_default" {
		maxKey = 246
	}
	return &drivertest.Backend{
		Driver: d,
		MaxKey: maxKey,
		Plant: func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
			return plantValue(ctx, c, opts, key, v, life)
		},
		Malform: func(ctx context.Context, key string, v drivertest.Value) error {
			if err := plantValue(ctx, c, opts, key, v, driver.Life{}); err != nil {
				return err
			}
			path, xattr := createdPath(opts)
			_, err := c.MutateIn(key, []gocb.MutateInSpec{
				gocb.UpsertSpec(path, "yesterday", &gocb.UpsertSpecOptions{IsXattr: xattr, CreatePath: xattr}),
			}, &gocb.MutateInOptions{PreserveExpiry: true, Context: ctx})
			return err
		},
		Mar: func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
			if err := plantValue(ctx, c, opts, key, v, life); err != nil {
				return err
			}
			path, xattr := createdPath(opts)
			var form any = int64(life.CreatedAt) // milliseconds, where the body has text
			if xattr {
				form = life.CreatedAt.Time().Format(time.RFC3339Nano)
			}
			_, err := c.MutateIn(key, []gocb.MutateInSpec{
				gocb.UpsertSpec(path, form, &gocb.UpsertSpecOptions{IsXattr: xattr}),
			}, &gocb.MutateInOptions{PreserveExpiry: true, Context: ctx})
			return err
		},
		Hostile: func(ctx context.Context, r drivertest.HostileRecord) error {
			return loadHostile(ctx, c, opts, r)
		},
		Retain: func(retain time.Duration) driver.Driver[drivertest.Value] {
			opts := opts
			opts.Retain = retain
			d, err := couchbase.New[drivertest.Value](c, &opts)
			ok(t, "New", err)
			return d
		},
		Again: func() driver.Driver[drivertest.Value] {
			again, err := couchbase.New[drivertest.Value](c, &opts)
			ok(t, "New", err)
			return again
		},
	}
}

// createdPath is where created_at is kept under opts.
func createdPath(opts couchbase.Options) (path string, xattr bool) {
	path, xattr = opts.CreatedPath, opts.CreatedIn != couchbase.Body
	switch {
	case path == "" && xattr:
		path = "slidingttl.created_at"
	case path == "":
		path = "created_at"
	}
	return path, xattr
}

// plantValue writes a record in the form of opts as another program would.
func plantValue(ctx context.Context, c *gocb.Collection, opts couchbase.Options, key string, v drivertest.Value, life driver.Life) error {
	var code gocb.Transcoder = gocb.NewJSONTranscoder()
	if opts.Transcoder != nil {
		code = opts.Transcoder
	}
	body, flags, err := code.Encode(v)
	if err != nil {
		return err
	}
	path, _ := createdPath(opts)
	if opts.CreatedIn == couchbase.Body && life.CreatedAt != 0 {
		var fields map[string]json.RawMessage // as they are
		if err := json.Unmarshal(body, &fields); err != nil {
			return err
		}
		fields[path] = []byte(life.CreatedAt.Time().In(time.FixedZone("", 2*60*60)).Format(`"` + time.RFC3339Nano + `"`))
		if body, err = json.Marshal(fields); err != nil {
			return err
		}
	}
	expiry := uint32((life.ExpiresAt + 999) / 1000)
	if err := plant(ctx, c, key, body, flags, expiry); err != nil {
		return err
	}
	if opts.CreatedIn == couchbase.Body || life.CreatedAt == 0 {
		return nil
	}
	_, err = c.MutateIn(key, []gocb.MutateInSpec{
		gocb.UpsertSpec(path, int64(life.CreatedAt), &gocb.UpsertSpecOptions{IsXattr: true, CreatePath: true}),
	}, &gocb.MutateInOptions{PreserveExpiry: true, Context: ctx})
	return err
}
