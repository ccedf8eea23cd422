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
)

const readyWait = 30 * time.Second

// openCouchbase opens couchbase://host[,host...]/bucket[/scope/collection].
func openCouchbase(ctx context.Context, u *url.URL, l layout) (*store, error) {
	path := strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(path) == 1 {
		path = append(path, "_default", "_default")
	}
	if len(path) != 3 || path[0] == "" {
		return nil, fmt.Errorf("%w: the path of a store on Couchbase must be /bucket or /bucket/scope/collection", errUsage)
	}
	opts := couchbase.Options{CreatedPath: l.CreatedAt}
	switch l.CreatedIn {
	case "", "xattr":
	case "body":
		opts.CreatedIn = couchbase.Body
	default:
		return nil, fmt.Errorf("%w: created_in is %q: must be xattr or body", errUsage, l.CreatedIn)
	}
	connect := url.URL{Scheme: u.Scheme, Host: u.Host, RawQuery: u.RawQuery}
	cluster, err := gocb.Connect(connect.String(), gocb.ClusterOptions{
		Username: os.Getenv("SLIDINGTTL_COUCHBASE_USER"),
		Password: os.Getenv("SLIDINGTTL_COUCHBASE_PASSWORD"),
	})
	if err != nil {
		return nil, err
	}
	stop := func() { _ = cluster.Close(nil) }
	bucket := cluster.Bucket(path[0])
	if err := bucket.WaitUntilReady(readyWait, &gocb.WaitUntilReadyOptions{Context: ctx, ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue}}); err != nil {
		stop()
		return nil, fmt.Errorf("connecting to %s: %w", u.Host, err)
	}
	d, err := couchbase.New[any](bucket.Scope(path[1]).Collection(path[2]), &opts)
	if err != nil {
		stop()
		return nil, err
	}
	return storeOf[any](d, stop), nil
}
