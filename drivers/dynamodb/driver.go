package dynamodb

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Driver keeps records of type T in a table. It implements [driver.Driver],
// [driver.BatchGetter], [driver.Latest], [driver.Remover] and [driver.Checker], and has
// nothing to be closed. All methods are safe for concurrent use.
type Driver[T any] struct{ core }

// core is what of a Driver does not depend on its T, so that it is compiled once for all of them.
type core struct {
	client api
	table  string
	opts   Options
	names  map[string]string // attribute names by their placeholders in expressions
	stats  tally

	encoding  *kit.Encoding
	triesKeys bool // each write decodes its key into a T

	clock                 func() time.Time                         // the system's
	draw                  func(most driver.Version) driver.Version // kit.NewVersion
	doubtLasts, lifeLasts time.Duration
}

var (
	_ driver.BatchGetter[int] = (*Driver[int])(nil)
	_ driver.Upserter[int]    = (*Driver[int])(nil)
	_ driver.Latest[int]      = (*Driver[int])(nil)
	_ driver.Remover          = (*Driver[int])(nil)
	_ driver.Checker          = (*Driver[int])(nil)
)

// New returns a driver for records in table, by its name or ARN. The application configures the client:
// credentials, region, retries, timeouts. opts may be nil; it is copied. New
// does no I/O. An argument that breaks its rule is a *driver.InvalidError, and so is a T with a
// field for the version, with one that cannot hold what the driver writes to its attribute, or with
// one whose name differs from an attribute of the driver's in case alone. A T with a map of what its pointer's
// methods encode, and one that is an interface with methods, is refused too: nothing in a map has an address.
func New[T any](client *dynamodb.Client, table string, opts *Options) (*Driver[T], error) {
	if client == nil {
		return nil, &driver.InvalidError{Field: "client", Value: "nil", Rule: "is required"}
	}
	return newDriver[T](client, table, opts)
}

func newDriver[T any](client api, table string, opts *Options) (*Driver[T], error) {
	if table == "" {
		return nil, &driver.InvalidError{Field: "table", Value: "empty", Rule: "is required"}
	}
	o, err := driver.Given(opts).validate()
	if err != nil {
		return nil, err
	}
	if o.LifeTable != "" && tableName(o.LifeTable) == tableName(table) {
		return nil, &driver.InvalidError{Field: "Options.LifeTable", Value: "the table of the values", Rule: "must be another table"}
	}
	d := &Driver[T]{core{client: client, table: table, opts: o, encoding: o.encoding(), clock: time.Now, draw: kit.NewVersion, doubtLasts: doubtLasts, lifeLasts: lifeLasts, names: map[string]string{
		"#k": o.PartitionKey.Name, "#e": o.Expiry, "#c": o.CreatedAt, "#v": o.Version,
		"#x": o.RetainedExpiry, "#at": retainedAt, "#ttl": retainedTTL,
		"#g": retainedGeneration, "#o": lifeEnded, "#n": lifeAnnounced, "#d": doubtName, "#b": formerName,
	}}}
	if d.triesKeys, err = d.checkValue(); err != nil {
		return nil, err
	}
	return d, nil
}

// Resolution implements driver.Driver: a second.
func (d *Driver[T]) Resolution() time.Duration { return time.Second }
