package couchbase

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/couchbase/gocb/v2"
	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// A lookup's first answer is the expiry; the others depend on who asks.
	expiryAt = 0

	// Get asks for the body, then for the stamp, then for the flags and for those that
	// a typed document was created with.
	bodyAt     = 1
	getStampAt = 2
	getFlagsAt = 3
	// A peek asks for the stamp, and for created_at where that is in the body.
	peekStampAt   = 1
	peekCreatedAt = 2

	// maxUnderWay bounds the lookups that GetMulti calls have under way at once
	// in one driver. gocb's queue to a node holds 2,048 operations and refuses more.
	maxUnderWay = 256
	// maxReaders bounds those of one GetMulti.
	maxReaders = 64
)

// specs returns what Get asks for, and what is asked to learn a document's meta data.
// The expiry of a document is only to be had as a virtual xattr.
func specs(created place, c codec) (read, peek []gocb.LookupInSpec) {
	virtual := &gocb.GetSpecOptions{IsXattr: true}
	xattr := &gocb.GetSpecOptions{IsXattr: true}
	expiry, stamp := gocb.GetSpec("$document.exptime", virtual), gocb.GetSpec(created.stampedPath(), xattr)
	read = []gocb.LookupInSpec{expiry, gocb.GetSpec("", nil), stamp}
	if c.flags {
		read = append(read, gocb.GetSpec("$document.flags", virtual), gocb.GetSpec(created.beside(flagsField), xattr))
	}
	peek = []gocb.LookupInSpec{expiry, stamp}
	if created.body {
		peek = append(peek, gocb.GetSpec(created.path, nil))
	}
	return read, peek
}

// Get implements driver.Driver, with one lookup of expiry, created_at and body together.
func (d *Driver[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	var e driver.Entry[T]
	res, err := d.lookup(ctx, key, d.read)
	if err != nil {
		return e, err
	}
	var doc document
	// The server finds no body in an empty document; decoding it says so.
	if err := res.ContentAt(bodyAt, &doc.body); err != nil && !errors.Is(err, gocb.ErrPathNotFound) {
		return e, visible(err)
	}
	var created driver.Instant
	if d.created.body {
		if created, err = d.created.within(doc.body); err != nil {
			return e, err
		}
	}
	r, err := d.record(res, created, getStampAt)
	if err != nil {
		return e, err
	}
	e.Meta = r.Meta
	if d.codec.flags {
		n, err := number(res, getFlagsAt)
		if n == 0 && err == nil {
			if n, err = number(res, getFlagsAt+1); errors.Is(err, gocb.ErrPathNotFound) {
				n, err = 0, nil
			}
		}
		if err != nil {
			return e, err
		}
		doc.flags = uint32(n)
	}
	return e, d.codec.decode(doc, &e.Value)
}

// meta looks up what is known of the record under key beside its value.
func (d *Driver[T]) meta(ctx context.Context, key string) (driver.Meta, error) {
	r, err := d.look(ctx, key)
	return r.Meta, err
}

// look is meta, with until when the record is held.
func (d *Driver[T]) look(ctx context.Context, key string) (peeked, error) {
	res, err := d.lookup(ctx, key, d.peek)
	if err != nil {
		return peeked{}, err
	}
	return d.peeked(res)
}

// peeked is what a peek has found. Of a record whose created_at cannot be read it is all
// else, with the error.
func (d *Driver[T]) peeked(res *gocb.LookupInResult) (peeked, error) {
	var created driver.Instant
	var bad error
	if d.created.body {
		raw, err := d.raw(res, peekCreatedAt)
		if err != nil {
			return peeked{}, err
		}
		created, bad = d.created.parse(raw)
	}
	r, err := d.record(res, created, peekStampAt)
	return r, errors.Join(bad, err)
}

// record tells the record that was looked up, with the stamp at that place.
func (d *Driver[T]) record(res *gocb.LookupInResult, created driver.Instant, stampAt uint) (peeked, error) {
	until, err := expiresAt(res)
	if err != nil {
		return peeked{}, err
	}
	stamp, err := d.raw(res, stampAt)
	if err != nil {
		return peeked{}, err
	}
	return d.created.record(until, created, stamp, driver.Version(res.Cas()))
}

func (d *Driver[T]) lookup(ctx context.Context, key string, specs []gocb.LookupInSpec) (*gocb.LookupInResult, error) {
	if err := driver.CheckKey(key, d.maxKey); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err // gocb may still answer
	}
	for deadline := time.Now().Add(d.opts.Timeout); ; {
		res, err := d.collection.LookupIn(key, specs, &gocb.LookupInOptions{
			Timeout:       time.Until(deadline),
			RetryStrategy: d.readRetry,
			ParentSpan:    d.span(ctx),
			Context:       ctx,
		})
		// Of a request whose connection ends gocbcore asks the strategy; not of one that it
		// cannot write any more, to a connection that broke or that it closed itself. The
		// next waits for a connection. Source: gocbcore v10.8.1, kvMux.handleOpRoutingResp.
		if unwritten := (*net.OpError)(nil); !errors.As(err, &unwritten) || ctx.Err() != nil || time.Until(deadline) <= 0 {
			return res, failure(ctx, err)
		}
	}
}

func (d *Driver[T]) span(ctx context.Context) gocb.RequestSpan {
	if d.opts.ParentSpan == nil {
		return nil
	}
	return d.opts.ParentSpan(ctx)
}

func expiresAt(res *gocb.LookupInResult) (driver.Instant, error) {
	s, err := number(res, expiryAt)
	return driver.Instant(s * 1000), err
}

func number(res *gocb.LookupInResult, at uint) (int64, error) {
	var raw []byte
	if err := res.ContentAt(at, &raw); err != nil {
		return 0, visible(err)
	}
	n, err := strconv.ParseUint(string(raw), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("xattr that must be a number: %w", err)
	}
	return int64(n), nil
}

// raw is created_at or a stamp as JSON, empty if there is none.
func (d *Driver[T]) raw(res *gocb.LookupInResult, at uint) (raw []byte, err error) {
	err = res.ContentAt(at, &raw)
	switch {
	case err == nil:
		return raw, nil
	case errors.Is(err, gocb.ErrPathNotFound):
		return nil, nil
	case d.created.body && (errors.Is(err, gocb.ErrPathMismatch) || errors.Is(err, gocb.ErrDocumentNotJSON) || errors.Is(err, gocb.ErrValueNotJSON)):
		return nil, nil // no room for a created_at, so there is none
	}
	return nil, visible(err)
}

// GetMulti implements driver.BatchGetter. The lookups share gocb's connections and
// are pipelined there: gocb's bulk calls know no sub-document operations.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	distinct := make([]int, 0, len(keys)) // the places of those
	for i := range driver.Distinct(keys) {
		distinct = append(distinct, i)
	}
	entries := make([]driver.Entry[T], len(distinct))
	errs := make([]error, len(distinct))
	err := d.each(ctx, len(distinct), func(ctx context.Context, i int) error {
		e, err := d.Get(ctx, keys[distinct[i]])
		switch {
		case err == nil:
			entries[i] = e
		case errors.Is(err, driver.ErrNotFound), errors.Is(err, driver.ErrInvalid):
			errs[i] = err
			return nil
		}
		return err
	})
	found := make(map[string]driver.Entry[T], len(keys))
	var failed driver.KeyErrors
	for i, e := range entries {
		if errors.Is(errs[i], driver.ErrInvalid) {
			failed = append(failed, &driver.KeyError{Index: distinct[i], Err: errs[i]})
		} else if e.Version != 0 {
			found[keys[distinct[i]]] = e
		}
	}
	if err != nil {
		return found, err
	}
	return found, failed.Err()
}

// each calls f with the numbers below n, several at a time and each when it is its turn to look
// up, until one fails.
func (d *Driver[T]) each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReaders)
	for i := range n {
		group.Go(func() error {
			select {
			case d.slots <- struct{}{}:
				defer func() { <-d.slots }()
				return f(ctx, i)
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
	return group.Wait()
}
