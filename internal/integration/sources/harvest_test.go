package sources

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/couchbase/gocb/v2"
	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/cosmos"
	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// harvested is a driver that can be harvested.
type harvested interface {
	driver.Driver[session]
	upkeep.Harvested
}

// openHarvested opens the store of r.
func openHarvested(r run) (d harvested, done func() error, err error) {
	switch r.Kind {
	case "couchbase":
		cluster, err := gocb.Connect(r.Address, gocb.ClusterOptions{Authenticator: gocb.PasswordAuthenticator{Username: r.User, Password: r.Password}})
		if err != nil {
			return nil, nil, err
		}
		b := cluster.Bucket(r.Name)
		if err := b.WaitUntilReady(time.Minute, nil); err != nil {
			return nil, nil, err
		}
		d, err := couchbase.New[session](b.DefaultCollection(), &couchbase.Options{Retain: 30 * day})
		return d, func() error { return cluster.Close(nil) }, err
	case "redis":
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Address}})
		if err != nil {
			return nil, nil, err
		}
		d, err := redis.New[session](client, &redis.Options{Retain: 30 * day})
		return d, func() error { client.Close(); return nil }, err
	case "cosmos":
		credential, err := azcosmos.NewKeyCredential(r.Password)
		if err != nil {
			return nil, nil, err
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		opts := &azcosmos.ClientOptions{}
		opts.Transport = &http.Client{Transport: transport}
		client, err := azcosmos.NewClientWithKey(r.Address, credential, opts)
		if err != nil {
			return nil, nil, err
		}
		container, err := client.NewContainer("app", r.Name)
		if err != nil {
			return nil, nil, err
		}
		d, err := cosmos.New[session](container, &cosmos.Options{Retain: 30 * day})
		return d, func() error { client.Close(); transport.CloseIdleConnections(); return nil }, err
	}
	return nil, nil, fmt.Errorf("no source %q", r.Kind)
}

// harvest hands the dead records of d to the archive, continuing from the last position.
func harvest(ctx context.Context, d harvested, g *archive.Archiver, batch int) error {
	o := &upkeep.HarvestOptions{Bury: g.Archive, Batch: batch}
	o.Segments, o.Page = 2, 10
	report, err := g.Harvest(ctx, "the store", d, policy, o)
	if err == nil && (report.Counts["lost"] > 0 || report.Counts["malformed"] > 0) {
		err = errors.New(report.String())
	}
	return err
}

// stores has functions that start the stores to harvest.
var stores = map[string]func(t *testing.T) run{
	"couchbase": func(t *testing.T) run {
		n := couchbasetest.Start(t)
		return run{Address: n.ConnectionString(), User: n.Username(), Password: n.Password(), Name: n.Bucket()}
	},
	"redis": func(t *testing.T) run {
		return run{Address: redistest.Start(t).Addr}
	},
	"cosmos": func(t *testing.T) run {
		a := cosmostest.Start(t)
		d, err := cosmos.New[session](new(azcosmos.ContainerClient), nil)
		ok(t, err)
		credential, err := azcosmos.NewKeyCredential(a.Key())
		ok(t, err)
		transport := http.DefaultTransport.(*http.Transport).Clone()
		defer transport.CloseIdleConnections()
		opts := &azcosmos.ClientOptions{}
		opts.Transport = &http.Client{Transport: transport}
		client, err := azcosmos.NewClientWithKey(a.Endpoint(), credential, opts)
		ok(t, err)
		defer client.Close()
		_, err = client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "app"}, nil)
		ok(t, err)
		db, err := client.NewDatabase("app")
		ok(t, err)
		_, err = db.CreateContainer(t.Context(), d.Properties("sessions"), nil)
		ok(t, err)
		return run{Address: a.Endpoint(), Password: a.Key(), Name: "sessions"}
	},
}

// fillHarvested writes n retained dead records into d, and some live ones. It adds the dead ones
// to dead.
func fillHarvested(t *testing.T, d harvested, dead map[string]archive.Record, n int) {
	t.Helper()
	now := driver.Floor(time.Now())
	for range n {
		i := len(dead)
		key, died := fmt.Sprint("dead-", i), now.Add(-time.Hour-time.Duration(i)*time.Second)
		life := driver.Life{CreatedAt: died.Add(-30 * day), ExpiresAt: died}
		want := archive.Record{Reason: archive.Idle}
		if i%2 == 1 {
			life.CreatedAt, want.Reason = died.Add(-90*day), archive.Age
		}
		insert(t, d, key, session{User: key}, life)
		e, err := d.Get(t.Context(), key) // as the store has it
		ok(t, err)
		want.CreatedAt, want.ExpiredAt = e.CreatedAt, e.ExpiresAt
		dead[key] = want
		if i%20 == 0 {
			_, err := d.Insert(t.Context(), fmt.Sprint("alive-", i), session{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(day)}, now)
			ok(t, err)
		}
	}
}
