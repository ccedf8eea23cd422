package couchbase

import (
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// attempts bounds the races that one call may lose. Each is won by another writer of
// the same record, so it takes that many at once to get there.
const attempts = 64

// flagsField is beside created_at, and holds the flags of a typed document until they
// are where others look for them.
const flagsField = "flags"

// mostRelative is the largest expiry that the server takes for a number of seconds
// from now, 30 days. Source: kv_engine, mc_time.cc.
const mostRelative = 30 * 24 * 60 * 60

// expiry is at as it travels: seconds since the Unix epoch, zero for none.
func expiry(at driver.Instant) (uint32, error) {
	s := int64(at.RoundUp(resolution)) / 1000
	if at != 0 && (s <= mostRelative || s > math.MaxUint32) {
		return 0, &driver.InvalidError{
			Field: "expiry", Value: at.Time().String(),
			Rule: "must lie between 1970-01-31 and 2106-02-07, beyond which Couchbase takes it for something else",
		}
	}
	return uint32(s), nil
}

// Insert implements driver.Driver: one round trip. Where a record is in the way a
// lookup tells what it is; with Options.Retain it is sent together with the write, for a
// dead one is then likely. One that is dead by now, and not yet by the server's clock, is
// replaced.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	doc, err := d.prepare(key, v)
	if err != nil {
		return 0, err
	}
	var found driver.Meta
	for range attempts {
		var p pending
		if p, err = d.begin(ctx, key, doc, nil, life, now); err != nil {
			return 0, err
		}
		var merr error
		if d.opts.Retain > 0 {
			found, merr = d.meta(ctx, key)
		}
		var left driver.Version
		left, err = d.finish(ctx, key, p, doc, nil, life)
		if !moved(err) {
			return left, err
		}
		if d.opts.Retain == 0 {
			found, merr = d.meta(ctx, key)
		}
		switch {
		case errors.Is(merr, driver.ErrNotFound):
			continue
		case merr != nil:
			return 0, merr
		case found.Alive(now):
			return 0, &driver.ConflictError{Found: found, Err: err}
		}
		left, err = d.store(ctx, key, doc, &found, life, now)
		if err == nil {
			driver.Replaced(ctx, found)
		}
		if !moved(err) && !errors.Is(err, driver.ErrNotFound) {
			return left, err
		}
	}
	return 0, &driver.ConflictError{Found: found, Err: err}
}

// Replace implements driver.Driver: one round trip. On a mismatch a lookup tells what
// is there. A touch changes the version too, and cannot be told from an overwrite.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	doc, err := d.prepare(key, v)
	if err != nil {
		return 0, err
	}
	ctx, cancel := driver.WithLife(ctx, was, now, mostSkew)
	defer cancel()
	return d.over(ctx, key, was, now, func() (driver.Version, error) { return d.store(ctx, key, doc, &was, life, now) })
}

// over makes a write of the record was alone. Where that is not there a lookup tells what is.
func (d *Driver[T]) over(ctx context.Context, key string, was driver.Meta, now driver.Instant, write func() (driver.Version, error)) (driver.Version, error) {
	var refusal error
	if was.Alive(now) && was.Version != 0 { // a write without a CAS would land on anything
		left, err := write()
		if !moved(err) {
			return left, err
		}
		refusal = err
	}
	found, err := d.live(ctx, key, now)
	if err != nil {
		return 0, err
	}
	return 0, &driver.ConflictError{Found: found, Err: refusal}
}

// live is meta, with ErrNotFound for a record that is dead at now.
func (d *Driver[T]) live(ctx context.Context, key string, now driver.Instant) (driver.Meta, error) {
	m, err := d.meta(ctx, key)
	if err == nil && !m.Alive(now) {
		err = driver.ErrNotFound
	}
	return m, err
}

// prepare checks key and encodes v.
func (d *Driver[T]) prepare(key string, v T) (document, error) {
	if err := driver.CheckKey(key, d.maxKey); err != nil {
		return document{}, err
	}
	return d.codec.encode(v)
}

// store writes doc with life over the record over, or where there is none if over is
// nil.
func (d *Driver[T]) store(ctx context.Context, key string, doc document, over *driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	p, err := d.begin(ctx, key, doc, over, life, now)
	if err != nil {
		return 0, err
	}
	return d.finish(ctx, key, p, doc, over, life)
}

// begin sends the write. The document is written whole where that leaves its stamp right.
// Else it takes a sub-document write, which can do both at once and cannot set flags.
func (d *Driver[T]) begin(ctx context.Context, key string, doc document, over *driver.Meta, life driver.Life, now driver.Instant) (pending, error) {
	t, err := d.terms(life)
	if err != nil {
		return pending{}, err
	}
	if d.created.body {
		if doc.body, err = d.created.put(doc.body, life.CreatedAt); err != nil {
			return pending{}, err
		}
		if over == nil && d.whole(over, life) {
			return d.addWhole(ctx, key, t.until, doc)
		}
	}
	if d.whole(over, life) {
		return d.replaceWhole(ctx, key, gocb.Cas(over.Version), t.until, doc)
	}
	ops := []gocbcore.SubDocOp{d.created.stamp(t, life.CreatedAt, now), {Op: memd.SubDocOpSetDoc, Value: doc.body}}
	if doc.typed() {
		ops = append(ops, setXattr(d.created.beside(flagsField), strconv.AppendUint(nil, uint64(doc.flags), 10)))
	}
	if over == nil {
		return d.mutateIn(ctx, key, mutation{flags: memd.SubdocDocFlagAddDoc, expiry: t.until, ops: ops})
	}
	return d.mutateIn(ctx, key, mutation{cas: gocb.Cas(over.Version), expiry: t.until, ops: ops})
}

// whole reports whether a write of life over a record, or where there is none, may leave
// the stamp alone: it has no created_at to tell, and nothing is retained, nor was. What
// was by another driver it cannot know, but by an expiry that stays: were there terms of
// which that is the document's, it would not have been read as the record's.
func (d *Driver[T]) whole(over *driver.Meta, life driver.Life) bool {
	if d.opts.Retain > 0 && life.ExpiresAt != 0 {
		return false
	}
	if over == nil {
		return d.created.body
	}
	stays := life.ExpiresAt == 0 || life.ExpiresAt == over.ExpiresAt
	return stays && (d.created.body || over.CreatedAt == life.CreatedAt)
}

// finish waits for the write, and gives a document its flags if it lacks them.
func (d *Driver[T]) finish(ctx context.Context, key string, p pending, doc document, over *driver.Meta, life driver.Life) (driver.Version, error) {
	left, err := p.wait(ctx)
	if err != nil {
		return 0, tooLarge(err, len(doc.body))
	}
	if d.whole(over, life) || !doc.typed() {
		return driver.Version(left), nil
	}
	t, err := d.terms(life)
	if err != nil {
		return 0, err
	}
	if p, err = d.replaceWhole(ctx, key, left, t.until, doc); err == nil {
		var typed gocb.Cas
		if typed, err = p.wait(ctx); err == nil {
			left = typed
		}
	}
	// The record is written, created_at and all. Should it have been overwritten
	// meanwhile or the server be gone, the next write of the value sets its flags.
	return driver.Version(left), nil
}
