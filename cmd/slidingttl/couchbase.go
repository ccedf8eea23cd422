package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var couchbaseKind = kind{
	schemes: []string{"couchbase", "couchbases"},
	form:    "couchbase://host/bucket[/scope/collection][?retain=D]",
	params: parameters{
		"retain":     span,
		"network":    client,
		"kv_timeout": client, "kv_scan_timeout": client, "kv_connect_timeout": client, "kv_pool_size": client,
		"http_timeout": client, "ca_cert_path": client, "dnssrv": client,
	},
	credentials: "set SLIDINGTTL_COUCHBASE_USER and SLIDINGTTL_COUCHBASE_PASSWORD",
	keeps:       "its files until they are compacted, XDCR targets, consumers of DCP, and backups",
	open:        openCouchbase,
}

type couchbaseLayout struct {
	CreatedAt string `json:"created_at"` // the path
	CreatedIn string `json:"created_in"`
}

const readyWait = 30 * time.Second

// outspoken is a strategy that fails at once with the cause, such as a wrong password. By default
// gocb waits until its timeout and does not return the cause.
type outspoken struct{}

// RetryAfter implements gocb.RetryStrategy. It is not asked while gocb is connecting.
func (outspoken) RetryAfter(gocb.RetryRequest, gocb.RetryReason) gocb.RetryAction {
	return &gocb.NoRetryRetryAction{}
}

func openCouchbase(ctx context.Context, a *address, l layout) (*store, error) {
	var names couchbaseLayout
	if err := l.into(&names); err != nil {
		return nil, err
	}
	opts := couchbase.Options{CreatedPath: names.CreatedAt, Retain: a.retain}
	var err error
	if opts.CreatedIn, err = choice("created_in", names.CreatedIn, map[string]couchbase.Place{"xattr": couchbase.Xattr, "body": couchbase.Body}); err != nil {
		return nil, err
	}
	path := strings.Split(strings.Trim(a.Path, "/"), "/")
	if len(path) == 1 {
		path = append(path, "_default", "_default")
	}
	if a.Host == "" || len(path) != 3 || path[0] == "" {
		return nil, errForm
	}
	user := os.Getenv("SLIDINGTTL_COUCHBASE_USER")
	if a.User != nil {
		user = a.User.Username()
	}
	connect := url.URL{Scheme: a.Scheme, Host: a.Host, RawQuery: a.RawQuery}
	cluster, err := gocb.Connect(connect.String(), gocb.ClusterOptions{
		Username: user,
		Password: os.Getenv("SLIDINGTTL_COUCHBASE_PASSWORD"),
	})
	if err != nil {
		return nil, err
	}
	stop := func() { _ = cluster.Close(nil) }
	bucket := cluster.Bucket(path[0])
	ready := make(chan error, 1)
	go func() { // gocb v2.11.1 is not told of ctx: its call never returns if that ends as the bucket is found to be ready
		ready <- bucket.WaitUntilReady(readyWait, &gocb.WaitUntilReadyOptions{
			ServiceTypes:  []gocb.ServiceType{gocb.ServiceTypeKeyValue},
			RetryStrategy: outspoken{},
		})
	}()
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("connecting to %s: %w", a.Host, err)
	}
	d, err := couchbase.New[any](bucket.Scope(path[1]).Collection(path[2]), &opts)
	if err != nil {
		stop()
		return nil, err
	}
	s := &store{walked: d, close: stop}
	s.sessions = func() (driver.Driver[session.Record], error) {
		return couchbase.New[session.Record](bucket.Scope(path[1]).Collection(path[2]), &opts)
	}
	s.name = " " + strings.Join(path, "/")
	s.ids = func(context.Context) ([]string, error) {
		agent, err := bucket.Internal().IORouter()
		if err != nil {
			return nil, err
		}
		config, err := agent.ConfigSnapshot()
		if err != nil {
			return nil, err
		}
		return []string{"bucket " + config.BucketUUID()}, nil
	}
	return s, nil
}
