package couchbase

import (
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Driver keeps values of type T in a Couchbase collection. Its methods are safe for
// concurrent use. It holds no resources: the cluster stays the application's to close.
type Driver[T any] struct {
	collection *gocb.Collection
	opts       Options
	created    place
	codec      codec
	read       []gocb.LookupInSpec // the specs of Get, see record
	peek       []gocb.LookupInSpec // the same without the body
	readRetry  gocb.RetryStrategy
	touchRetry gocb.RetryStrategy
	writeRetry gocb.RetryStrategy
	slots      chan struct{} // limits GetMulti's concurrent lookups
	maxKey     int
}

var (
	_ driver.BatchGetter[any] = (*Driver[any])(nil)
	_ driver.Upserter[any]    = (*Driver[any])(nil)
	_ driver.ReadToucher[any] = (*Driver[any])(nil)
	_ driver.Remover[any]     = (*Driver[any])(nil)
	_ driver.Checker          = (*Driver[any])(nil)
)

const (
	// maxKey is the limit on keys in the default collection, maxNamedKey that in
	// any other. Source: docs.couchbase.com, Data, Keys.
	maxKey      = 250
	maxNamedKey = 246

	// resolution is that of the document's expiry: whole seconds.
	resolution = time.Second
)

// New returns a driver over c. opts may be nil; it is copied. New does no I/O. c may
// still be connecting: the first calls then wait for it, within Options.Timeout.
//
// An option that breaks its rule is a *driver.InvalidError that names it.
func New[T any](c *gocb.Collection, opts *Options) (*Driver[T], error) {
	if c == nil {
		return nil, &driver.InvalidError{Field: "collection", Value: "nil", Rule: "is required"}
	}
	o, err := driver.Given(opts).validate()
	if err != nil {
		return nil, err
	}
	d := &Driver[T]{
		collection: c,
		opts:       o,
		created:    place{body: o.CreatedIn == Body, path: o.CreatedPath},
		codec:      newCodec(o.Transcoder),
		slots:      make(chan struct{}, maxUnderWay),
		maxKey:     maxNamedKey,
	}
	if c.ScopeName() == "_default" && c.Name() == "_default" {
		d.maxKey = maxKey
	}
	d.read, d.peek = specs(d.created, d.codec)
	retry := o.RetryStrategy
	if retry == nil {
		retry = gocb.NewBestEffortRetryStrategy(nil)
	}
	d.readRetry, d.writeRetry, d.touchRetry = repeatable{retry}, once{retry}, impatient{once{retry}}
	return d, nil
}

// Resolution is one second.
func (d *Driver[T]) Resolution() time.Duration { return resolution }
