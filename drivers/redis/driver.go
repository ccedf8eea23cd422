package redis

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Driver keeps records of type T. It holds no resources: the client stays the
// application's to close. All methods are safe for concurrent use.
type Driver[T any] struct {
	client wire.Client
	opts   Options
	clock  kit.ServerClock
}

var (
	_ driver.BatchGetter[int] = (*Driver[int])(nil)
	_ driver.ReadToucher[int] = (*Driver[int])(nil)
	_ driver.Overwriter[int]  = (*Driver[int])(nil)
	_ driver.Remover          = (*Driver[int])(nil)
	_ driver.Scanner          = (*Driver[int])(nil)
	_ driver.RawReader        = (*Driver[int])(nil)
	_ driver.Checker          = (*Driver[int])(nil)
	_ driver.Clock            = (*Driver[int])(nil)
)

// New returns a driver over client. opts may be nil; it is copied. New does no I/O. An
// argument that breaks its rule is a *driver.InvalidError, and so, if Options.Codec is nil, is a T that JSON
// does not keep: a map[string]big.Int, because only *big.Int encodes itself and nothing in a map has an address.
func New[T any](client rueidis.Client, opts *Options) (*Driver[T], error) {
	if client == nil {
		return Over[T](nil, opts)
	}
	return Over[T](newRueidisClient(client), opts)
}

// Over is New over what package goredis makes of a go-redis client: use goredis.New.
func Over[T any](client wire.Client, opts *Options) (*Driver[T], error) {
	if client == nil {
		return nil, &driver.InvalidError{Field: "client", Value: "nil", Rule: "is required"}
	}
	o, err := driver.Given(opts).validate()
	if err != nil {
		return nil, err
	}
	if _, ok := o.Codec.(kit.JSON); ok {
		if o.Codec, err = kit.JSONOf[T](); err != nil {
			return nil, err
		}
	}
	return &Driver[T]{client: client, opts: o}, nil
}

// KeyPrefix returns Options.Prefix, by which package upkeep knows whose keys these are.
func (d *Driver[T]) KeyPrefix() string { return d.opts.Prefix }

// Resolution implements driver.Driver: a millisecond.
func (d *Driver[T]) Resolution() time.Duration { return time.Millisecond }

// key returns the Redis key of a record.
func (d *Driver[T]) key(key string) (string, error) {
	if err := driver.CheckKey(key, maxString-len(d.opts.Prefix)); err != nil {
		return "", err
	}
	return d.opts.Prefix + key, nil
}
