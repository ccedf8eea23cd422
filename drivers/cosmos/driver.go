package cosmos

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Driver keeps records of type T in a container. It holds no resources: the client stays the
// application's. All methods are safe for concurrent use.
type Driver[T any] struct {
	client   *azcosmos.ContainerClient
	opts     Options
	sessions sessions
	etags    etags
	stats    tally

	triesKeys bool // each write decodes its key into a T
}

var (
	_ driver.BatchGetter[int] = (*Driver[int])(nil)
	_ driver.Upserter[int]    = (*Driver[int])(nil)
	_ driver.Latest[int]      = (*Driver[int])(nil)
	_ driver.Remover          = (*Driver[int])(nil)
	_ driver.Scanner          = (*Driver[int])(nil)
	_ driver.RawReader        = (*Driver[int])(nil)
	_ driver.Checker          = (*Driver[int])(nil)
)

// New returns a driver for records in the container of client. The application configures that: credentials,
// regions, retries, timeouts. opts may be nil; it is copied. New does no I/O. An argument that breaks its rule is a *driver.InvalidError, and so is a T with a
// field that cannot hold what the driver writes to its property. JSON does not keep a
// map[string]big.Int, because only *big.Int encodes itself and nothing in a map has an address: such a T is
// refused too, if Options.Codec is nil.
func New[T any](client *azcosmos.ContainerClient, opts *Options) (*Driver[T], error) {
	if client == nil {
		return nil, &driver.InvalidError{Field: "client", Value: "nil", Rule: "is required"}
	}
	o, err := driver.Given(opts).validate()
	if err != nil {
		return nil, err
	}
	d := &Driver[T]{client: client, opts: o}
	if d.triesKeys, err = d.checkValue(); err != nil {
		return nil, err
	}
	return d, nil
}

// Resolution implements driver.Driver: a second.
func (d *Driver[T]) Resolution() time.Duration { return time.Second }
