package couchbase

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// The first result of a lookup is the expiry; the others differ between Get and peek.
	expiryAt = 0

	// Get asks for body, stamp, and for a transcoder the flags and their xattr.
	bodyAt     = 1
	getStampAt = 2
	getFlagsAt = 3
	// A peek asks for the stamp, and for created_at if that is in the body.
	peekStampAt   = 1
	peekCreatedAt = 2
)

var flagsSpec = gocb.GetSpec("$document.flags", &gocb.GetSpecOptions{IsXattr: true})

// specs returns the lookups of Get and of a peek. A document's expiry is readable only as a virtual
// xattr.
func specs(created place, c codec) (read, peek []gocb.LookupInSpec) {
	virtual := &gocb.GetSpecOptions{IsXattr: true}
	xattr := &gocb.GetSpecOptions{IsXattr: true}
	expiry, stamp := gocb.GetSpec("$document.exptime", virtual), gocb.GetSpec(created.stampedPath(), xattr)
	read = []gocb.LookupInSpec{expiry, gocb.GetSpec("", nil), stamp}
	peek = []gocb.LookupInSpec{expiry, stamp}
	if c.flags {
		read = append(read, flagsSpec, gocb.GetSpec(created.beside(flagsField), xattr))
	}
	if created.body {
		peek = append(peek, gocb.GetSpec(created.path, nil))
	}
	return read, peek
}

// Get implements driver.Driver, with one lookup of expiry, created_at and body together.
func (d *Driver[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	var e driver.Entry[T]
	r, body, res, err := d.readWhole(ctx, key)
	if err != nil {
		return e, err
	}
	e.Meta = r.Meta
	doc := document{body: body}
	if d.codec.flags {
		flags, err := number(res, getFlagsAt)
		if err != nil {
			return e, err
		}
		var xattr []byte
		_ = res.ContentAt(getFlagsAt+1, &xattr) // another program may have anything there, or nothing
		doc.flags = uint32(flags)
		doc.flags = doc.trueFlags(xattr)
	}
	return e, d.codec.decode(doc, &e.Value)
}

// readWhole looks up the record and its body. If created_at cannot be read, it returns the rest with the
// error.
func (d *Driver[T]) readWhole(ctx context.Context, key string) (r peeked, body []byte, res *gocb.LookupInResult, err error) {
	if res, err = d.lookup(ctx, key, d.read); err != nil {
		return r, nil, res, err
	}
	// An empty document has no body; decoding reports that.
	if err := res.ContentAt(bodyAt, &body); err != nil && !errors.Is(err, gocb.ErrPathNotFound) {
		return r, nil, res, visible(err)
	}
	var created driver.Instant
	var bad error
	if d.created.body {
		created, bad = d.created.within(body)
	}
	if r, err = d.record(res, created, getStampAt); err == nil {
		err = bad
	}
	return r, body, res, err
}

// meta looks up the record's Meta without its value, for a write, which may replace any body.
func (d *Driver[T]) meta(ctx context.Context, key string) (driver.Meta, error) {
	r, err := d.readPeeked(ctx, key)
	if errors.Is(err, errNotObject) || errors.Is(err, errTooDeep) || errors.Is(err, errHidden) {
		err = nil
	}
	return r.Meta, err
}

// metaBeside is meta, sent together with the write p.
func (d *Driver[T]) metaBeside(ctx context.Context, key string, p pending) (driver.Meta, error) {
	ctx, cancel := p.beside(ctx, true)
	defer cancel()
	return d.meta(ctx, key)
}

// readPeeked is meta, with the document's expiry. It reads the whole of a body in which the server finds
// no field, because it has too many levels.
func (d *Driver[T]) readPeeked(ctx context.Context, key string) (peeked, error) {
	res, err := d.lookup(ctx, key, d.peek)
	if err != nil {
		return peeked{}, err
	}
	r, err := d.peeked(res)
	if errors.Is(err, errTooDeep) {
		r, _, _, err = d.readWhole(ctx, key)
	}
	return r, err
}

// peeked reads the results of a peek. If created_at cannot be read, it returns the rest with the
// error, but nothing if the stamp is out of reach.
func (d *Driver[T]) peeked(res *gocb.LookupInResult) (peeked, error) {
	var created driver.Instant
	var bad error
	if d.created.body {
		var raw []byte
		if raw, bad = d.raw(res, peekCreatedAt, true); bad == nil {
			created, bad = d.created.parse(raw)
		}
	}
	r, err := d.record(res, created, peekStampAt)
	if err != nil {
		return r, err
	}
	return r, bad
}

// record reads a lookup's record; stampAt is the index of the stamp.
func (d *Driver[T]) record(res *gocb.LookupInResult, created driver.Instant, stampAt uint) (peeked, error) {
	until, err := expiresAt(res)
	if err != nil {
		return peeked{}, err
	}
	stamp, err := d.raw(res, stampAt, false)
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
		// gocbcore asks the strategy about a request whose connection ends, but not about one that
		// it could not write because the connection broke or gocbcore closed it. The next attempt
		// waits for a connection. Source: gocbcore v10.8.1, kvMux.handleOpRoutingResp.
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

// raw returns the JSON of created_at or a stamp, empty if there is none.
func (d *Driver[T]) raw(res *gocb.LookupInResult, at uint, inBody bool) (raw []byte, err error) {
	if err = res.ContentAt(at, &raw); errors.Is(err, gocb.ErrPathNotFound) {
		return nil, nil
	}
	return raw, d.created.outOfReach(visible(err), inBody)
}
