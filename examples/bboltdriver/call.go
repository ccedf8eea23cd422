package bboltdriver

import (
	"context"
	"fmt"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const reading, writing = false, true

// call runs f in a transaction, which an error of f rolls back.
//
// It returns soon after ctx ends, though bbolt knows no contexts: a write waits there for
// other writers and the disk, and a read for a write that grows the file. If f has not begun
// by then, it never does. If it has, a write may land: that is driver.ErrAmbiguous, and so is
// an error from the disk after f is done.
func call[R any](ctx context.Context, d *store, writes bool, f func(*bolt.Bucket) (R, error)) (R, error) {
	type result struct {
		value R
		err   error
	}
	var none R
	if err := ctx.Err(); err != nil {
		return none, err
	}
	transact := d.db.View
	if writes {
		transact = d.db.Update
	}
	var claimed atomic.Bool // by the transaction, or by the caller who has given it up
	done := make(chan result, 1)
	go func() {
		var r result
		ready := false
		r.err = transact(func(tx *bolt.Tx) (err error) {
			if !claimed.CompareAndSwap(false, true) {
				return context.Canceled // nobody receives it
			}
			b := tx.Bucket(d.bucket)
			if b == nil {
				return fmt.Errorf("%w: %w", driver.ErrRefused, bolterrors.ErrBucketNotFound)
			}
			r.value, err = f(b)
			ready = err == nil
			return err
		})
		if r.err != nil && ready && writes {
			r.err = fmt.Errorf("%w: %w", driver.ErrAmbiguous, r.err)
		}
		done <- r
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return none, fmt.Errorf("bbolt: %w", r.err)
		}
		return r.value, nil
	case <-ctx.Done():
		if writes && !claimed.CompareAndSwap(false, true) {
			return none, fmt.Errorf("bbolt: %w: %w", driver.ErrAmbiguous, ctx.Err())
		}
		return none, ctx.Err()
	}
}
