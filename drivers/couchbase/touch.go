package couchbase

import (
	"context"
	"fmt"
	"math"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// touchedPath is the xattr that a touch writes if created_at is in the body, because a sub-document
// write needs an operation.
const touchedPath = "slidingttl.touched_at"

// lockedVersion is the CAS that a lookup returns for a document locked by another client; no write
// lands on it. Source: kv_engine, HideLockedCas.
const lockedVersion driver.Version = math.MaxUint64

// Touch implements driver.Driver, with one round trip, or two if the record is not the one
// that was. It may be the same life: an overwrite or another touch changes the version too.
// Touch does not send the body. It leaves the body unchanged, except that an adoption in
// the place Body adds created_at. For a record that another client has locked, Touch
// returns driver.ErrLocked at once, and without a round trip if was was read under the
// lock.
func (d *Driver[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := driver.CheckKey(key, d.maxKey); err != nil {
		return 0, err
	}
	ctx, cancel := kit.WithLife(ctx, was, now, mostSkew)
	defer cancel()
	return d.over(ctx, key, was, now, func() (driver.Version, error) {
		p, err := d.beginTouch(ctx, key, was, life, now, d.touchRetry)
		if err != nil {
			return 0, err
		}
		left, err := p.wait(ctx)
		return driver.Version(left), err
	})
}

// beginTouch sends the touch of was, whose version must not be zero.
func (d *Driver[T]) beginTouch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant, retry gocb.RetryStrategy) (pending, error) {
	if was.Version == lockedVersion {
		return pending{}, fmt.Errorf("%w: %w", driver.ErrLocked, gocb.ErrDocumentLocked)
	}
	t, err := d.terms(life)
	if err != nil {
		return pending{}, err
	}
	if life.CreatedAt == 0 && was.CreatedAt == 0 { // retired before its adoption, and not taken back
		t = d.retained(t.expires)
	}
	ops := []gocbcore.SubDocOp{d.created.stamp(t, life.CreatedAt, now)}
	switch {
	case life.CreatedAt == 0 && was.CreatedAt == 0:
	case life.CreatedAt == 0:
		ops = append(ops, d.created.unset()...) // set before, so that the paths exist
	case d.created.body && was.CreatedAt != life.CreatedAt:
		ops = append(ops, d.created.set(life.CreatedAt))
	}
	return d.mutateIn(ctx, key, mutation{
		cas: gocb.Cas(was.Version), expiry: t.until, ops: ops, retry: retry,
	})
}
