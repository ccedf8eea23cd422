package couchbase

import (
	"bytes"
	"reflect"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/internal/kit"
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
	_ driver.Remover          = (*Driver[any])(nil)
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
// An option that breaks its rule is a *driver.InvalidError that names it, and so is a T with a field
// that cannot hold the created_at that CreatedIn: Body writes, or whose name differs from it in case
// alone. JSON does not keep a map[string]big.Int, because only *big.Int encodes itself and nothing in a map has an
// address: such a T is refused too.
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
	if err := d.checkValue(); err != nil {
		return nil, err
	}
	d.read, d.peek = specs(d.created, d.codec)
	retry := o.RetryStrategy
	if retry == nil {
		retry = gocb.NewBestEffortRetryStrategy(nil)
	}
	d.readRetry, d.writeRetry, d.touchRetry = repeatable{retry}, once{retry}, impatient{once{retry}}
	return d, nil
}

// checkValue rejects a T that JSON does not keep, or with a field that does not suit a created_at in the body.
func (d *Driver[T]) checkValue() error {
	switch d.codec.Transcoder.(type) {
	case *gocb.JSONTranscoder, *gocb.LegacyTranscoder:
		var err error
		if d.codec.json, err = kit.JSONOf[T](); err != nil {
			return err
		}
	}
	if !d.created.body {
		return nil
	}
	own := kit.OwnField{Name: d.created.path, Kind: "field", Option: "Options.CreatedPath"}
	_, err := own.Check(reflect.TypeFor[T]().String(), func(name string) (any, map[string]any, error) {
		body := []byte("{}")
		if name != "" {
			var err error
			if body, err = (place{body: true, path: name}).put(body, kit.NumberSeconds); err != nil {
				return nil, nil, err
			}
		}
		var v T
		if err := d.codec.decode(document{body: body}, &v); err != nil {
			return nil, nil, err
		}
		doc, err := d.codec.encode(v)
		if err != nil || bytes.Equal(doc.body, []byte("null")) {
			return v, nil, err
		}
		var fields map[string]any
		return v, fields, d.codec.decode(doc, &fields)
	})
	return err
}

// Resolution is one second.
func (d *Driver[T]) Resolution() time.Duration { return resolution }
