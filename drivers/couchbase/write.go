package couchbase

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"
	"github.com/couchbase/gocbcore/v10/memd"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// attempts bounds the conflicts of one call. Another writer wins each, so reaching it takes as many
// concurrent writers.
const attempts = 64

// flagsField is next to created_at, and holds the flags of a Transcoder's document.
const flagsField = "flags"

// flagsWait is how long a write that has landed waits for the second one, which sets the flags.
const flagsWait = time.Second

// mostRelative is the largest expiry that the server takes for a number of seconds
// from now, 30 days. Source: kv_engine, mc_time.cc.
const mostRelative = 30 * 24 * 60 * 60

// expiry converts at to the protocol's form: seconds since the Unix epoch, zero for none.
func expiry(at driver.Instant) (uint32, error) {
	s := int64(at.RoundUp(resolution)) / 1000
	if at != 0 && (s <= mostRelative || s > math.MaxUint32) {
		return 0, &driver.InvalidError{
			Field: "expiry", Value: at.Time().String(),
			Rule: "must lie between 1970-01-31 and 2106-02-07: Couchbase reads a smaller number as seconds from now, and has 32 bits",
		}
	}
	return uint32(s), nil
}

// Insert implements driver.Driver: one round trip. If a record exists, a lookup follows. With
// Options.Retain, where a dead one is likely, the lookup is sent together with the write. A record
// that is dead at now, though not by the server's clock, is replaced.
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
			found, merr = d.metaBeside(ctx, key, p)
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

// Replace implements driver.Driver: one round trip. After a mismatch it looks up the record. A
// touch changes the version too, so it conflicts like an overwrite.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	doc, err := d.prepare(key, v)
	if err != nil {
		return 0, err
	}
	ctx, cancel := kit.WithLife(ctx, was, now, mostSkew)
	defer cancel()
	return d.over(ctx, key, was, now, func() (driver.Version, error) { return d.store(ctx, key, doc, &was, life, now) })
}

// over makes a write over the record was. If that has changed, it looks up the record.
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

// live is meta, and ErrNotFound for a record that is dead at now.
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
	doc, err := d.codec.encode(v)
	if err == nil && d.codec.flags && d.unread(v) {
		var read T
		if err := d.codec.decode(document{bytes.Clone(doc.body), doc.flags}, &read); err != nil {
			return document{}, &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: fmt.Sprintf("must be one that %T decodes into a %v", d.codec.Transcoder, reflect.TypeFor[T]()), Err: err}
		}
	}
	return doc, err
}

// unread reports whether a transcoder may store v as it is, and then not decode it: raw JSON need not be
// valid, and gocb's decode no bytes and no text into a pointer to a pointer.
func (d *Driver[T]) unread(v any) bool {
	switch any((*T)(nil)).(type) {
	case *[]byte, *string:
		return false
	}
	switch v.(type) {
	case json.RawMessage, *json.RawMessage, []byte, *[]byte, string, *string, *any:
		return true
	}
	return false
}

// store replaces the record over by doc with life; if over is nil, it inserts.
func (d *Driver[T]) store(ctx context.Context, key string, doc document, over *driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	p, err := d.begin(ctx, key, doc, over, life, now)
	if err != nil {
		return 0, err
	}
	return d.finish(ctx, key, p, doc, over, life)
}

// begin sends the write: as a whole document if its stamp stays correct, else as a sub-document
// write, which sets body and stamp together but cannot set flags.
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
	m := mutation{flags: memd.SubdocDocFlagAddDoc, expiry: t.until, ops: d.wholeOps(doc, t, life.CreatedAt, now)}
	if over != nil {
		m.flags, m.cas = 0, gocb.Cas(over.Version)
	}
	p, err := d.mutateIn(ctx, key, m)
	p.doc = &doc
	return p, err
}

// wholeOps returns the operations that write a whole record.
func (d *Driver[T]) wholeOps(doc document, t terms, created, now driver.Instant) []gocbcore.SubDocOp {
	ops := []gocbcore.SubDocOp{d.created.stamp(t, created, now), {Op: memd.SubDocOpSetDoc, Value: doc.body}}
	if d.codec.flags {
		ops = append(ops, setXattr(d.created.beside(flagsField), doc.flagsXattr()))
	}
	return ops
}

// whole reports whether a write may leave the stamp unchanged: there is no created_at to write, and
// neither the old nor the new record is retained. It cannot see whether another driver retained the
// record, except through an unchanged expiry: with terms for that expiry, it would not have been
// read as the record's.
func (d *Driver[T]) whole(over *driver.Meta, life driver.Life) bool {
	if d.codec.flags || d.opts.Retain > 0 && life.ExpiresAt != 0 {
		return false
	}
	if over == nil {
		return d.created.body
	}
	stays := life.ExpiresAt == 0 || life.ExpiresAt == over.ExpiresAt
	return stays && (d.created.body || over.CreatedAt == life.CreatedAt)
}

// finish waits for the write. If it has left flags of another type, which other programs go by, a
// second write sets them. The lookup of the flags is answered in the same wait: a sub-document write
// changes no flags, so that it does not matter which of the two comes first, and another program's write
// has another CAS.
func (d *Driver[T]) finish(ctx context.Context, key string, p pending, doc document, over *driver.Meta, life driver.Life) (driver.Version, error) {
	var flags int64 // a new document has none
	var unknown error
	if p.doc != nil && over != nil {
		var res *gocb.LookupInResult
		beside, cancel := p.beside(ctx, false)
		if res, unknown = d.lookup(beside, key, []gocb.LookupInSpec{flagsSpec}); unknown == nil {
			flags, unknown = number(res, 0)
		}
		cancel()
	}
	p.size = len(doc.body)
	left, err := p.wait(ctx)
	if err != nil {
		return 0, err
	}
	if p.doc == nil || unknown == nil && !d.codec.mistaken(uint32(flags), doc.flags) {
		return driver.Version(left), nil
	}
	t, err := d.terms(life)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, flagsWait)
	defer cancel()
	if p, err = d.replaceWhole(ctx, key, left, t.until, *p.doc); err == nil {
		var whole gocb.Cas
		if whole, err = p.wait(ctx); err == nil {
			left = whole
		}
	}
	// The record is complete except for its flags. If setting them fails, because the document was
	// touched or overwritten or the server is down, the next write of the value sets them.
	return driver.Version(left), nil
}
