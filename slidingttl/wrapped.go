package slidingttl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// call makes a call of w. The repository's errors pass unchanged.
func (w *Wrapped[K, V, T]) call(ctx context.Context, op string, id K, f func(key string) error) error {
	key := w.key(id)
	return w.s.callKey(ctx, op, key, func() error {
		if err := f(key); err != nil {
			return own{err}
		}
		return nil
	})
}

// Get returns what the repository holds under id and touches the record if that is due.
//
// It waits as the store's TouchMode says. The repository's errors pass unchanged.
// ErrNotFound: the record is dead, whatever the repository returned.
func (w *Wrapped[K, V, T]) Get(ctx context.Context, id K) (v V, err error) {
	err = w.call(ctx, opGet, id, func(key string) (err error) {
		v, err = w.get(ctx, id, key, w.repo.Get, time.Time{})
		return err
	})
	return v, err
}

func (w *Wrapped[K, V, T]) get(ctx context.Context, id K, key string, read func(context.Context, K) (V, error), late time.Time) (V, error) {
	for attempt := 1; ; attempt++ {
		since := w.s.memo.Clock()
		v, err := read(ctx, id)
		if err != nil {
			w.s.memo.Forget(key) // it may have the record as gone
			return v, err
		}
		if attempt < readAttempts && w.tellsOfAnother(key, v, since) {
			continue
		}
		if err = w.keep(ctx, key, v, late); err != nil {
			var zero V
			return zero, err
		}
		return v, nil
	}
}

// readAttempts bounds the reads of one Get whose row is deleted again and again.
const readAttempts = 4

// tellsOfAnother reports whether v, read since then by the memo's clock, may tell the creation of a record that
// has been deleted meanwhile.
func (w *Wrapped[K, V, T]) tellsOfAnother(key string, v V, since uint64) bool {
	if w.createdAt(v) == 0 {
		return false
	}
	_, gone := w.s.touches.DeletedSince(key, since)
	return gone
}

// keep touches the record under key, whose value was read as v, if that is due.
func (w *Wrapped[K, V, T]) keep(ctx context.Context, key string, v V, late time.Time) error {
	err := w.s.keep(ctx, opGet, key, w.createdAt(v), late)
	if w.opts.NotFound != nil && errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("%w: %w", ErrNotFound, w.opts.NotFound)
	}
	return wrap(ctx, opGet, err)
}

// GetMulti returns what the repository holds under ids, and touches the records that are due.
//
// It calls the repository's GetMulti(ctx, []K) (map[K]V, error) if there is one, which leaves out
// absent ids, else its Get for each id. Dead records, and errors of Get that are
// [WrapOptions].NotFound, are left out; an id that failed otherwise is in a [KeyErrors].
func (w *Wrapped[K, V, T]) GetMulti(ctx context.Context, ids []K) (all map[K]V, err error) {
	err = w.s.call(ctx, opGetMulti, func() (err error) {
		all, err = w.getMulti(ctx, ids)
		return err
	})
	return all, err
}

func (w *Wrapped[K, V, T]) getMulti(ctx context.Context, ids []K) (map[K]V, error) {
	var values map[K]V
	many, ok := w.repo.(interface {
		GetMulti(ctx context.Context, ids []K) (map[K]V, error)
	})
	since, read := w.s.memo.Clock(), w.repo.Get
	if ok {
		read = func(ctx context.Context, id K) (V, error) {
			one, err := many.GetMulti(ctx, []K{id})
			v, there := one[id]
			if err == nil && !there {
				err = ErrNotFound
			}
			return v, err
		}
		var err error
		if values, err = many.GetMulti(ctx, ids); err != nil {
			return nil, own{err}
		}
	}
	found, late := make([]V, len(ids)), w.s.touches.Late()
	failed := w.s.each(ctx, len(ids), func(i int) (err error) {
		key := w.key(ids[i])
		v, there := values[ids[i]]
		switch err = cmp.Or(driver.CheckKey(key, 0), w.s.touches.Closed()); {
		case err != nil:
		case !ok && ctx.Err() != nil:
			err = ctx.Err()
		case !ok || there && w.tellsOfAnother(key, v, since):
			found[i], err = w.get(ctx, ids[i], key, read, late)
		case there:
			found[i], err = v, w.keep(ctx, key, v, late)
		default:
			w.s.memo.Forget(key)
			err = ErrNotFound
		}
		return err
	})
	all := make(map[K]V, len(ids))
	for i, id := range ids {
		all[id] = found[i]
	}
	for _, f := range failed {
		delete(all, ids[f.Index])
	}
	failed = slices.DeleteFunc(failed, func(f *KeyError) bool {
		return errors.Is(f, ErrNotFound) || w.opts.NotFound != nil && errors.Is(f, w.opts.NotFound)
	})
	return all, failed.Err()
}

// Upsert writes v through the repository, then its expiry, and waits for both.
//
// The repository's errors pass unchanged. An *[Error] of op "touch" says that the value is written
// and its expiry is not; the next access, or another Upsert, corrects it. Where a row is gone, Upsert waits for a
// touch under way of it as Store.Delete does, before it writes.
func (w *Wrapped[K, V, T]) Upsert(ctx context.Context, id K, v V) error {
	return w.save(ctx, opUpsert, id, v, w.repo.Upsert)
}

// Update is Upsert by the repository's Update(ctx, K, V) error, which it must have.
func (w *Wrapped[K, V, T]) Update(ctx context.Context, id K, v V) error {
	r, ok := w.repo.(interface {
		Update(ctx context.Context, id K, v V) error
	})
	if !ok {
		return missing("Update(ctx, id, v) error")
	}
	return w.save(ctx, opUpdate, id, v, r.Update)
}

// Insert is Upsert by the repository's Insert(ctx, K, V) error, which it must have.
//
// The repository must refuse an existing id. The record begins a new life.
func (w *Wrapped[K, V, T]) Insert(ctx context.Context, id K, v V) error {
	r, ok := w.repo.(interface {
		Insert(ctx context.Context, id K, v V) error
	})
	if !ok {
		return missing("Insert(ctx, id, v) error")
	}
	return w.save(ctx, opInsert, id, v, r.Insert)
}

func missing(method string) error {
	return &InvalidError{Field: "repo", Value: "without that method", Rule: "must have " + method}
}

// save writes v by write, a method of the repository, then its expiry. An inserted record had no
// life before.
func (w *Wrapped[K, V, T]) save(ctx context.Context, op string, id K, v V, write func(context.Context, K, V) error) error {
	return w.call(ctx, op, id, func(key string) error {
		was, began := driver.Life{CreatedAt: w.createdAt(v)}, w.s.touches.Deletes(key)
		since := w.s.memo.Clock()
		gone := func() { w.s.touches.Deleted(ctx, key, began, !driver.MayUndo(ctx), true) } // the record that was there then
		told := was.CreatedAt != 0
		if was.CreatedAt == 0 && op != opInsert || w.s.opts.Foreign != Adopt {
			carried := w.s.touches.Carried(key)
			r := readResult[T]{op: opPeek}
			err := w.s.read(ctx, w.s.latest, key, &r)
			if err == nil && r.meta.CreatedAt == 0 && w.s.opts.Foreign != Adopt {
				err = ErrForeign
			}
			switch {
			case errors.Is(err, ErrNotFound):
				gone()
			case err != nil:
				return wrap(ctx, opPeek, err)
			}
			if err == nil && was.CreatedAt == 0 && op != opInsert {
				was = r.meta.Life
				if was.CreatedAt == 0 { // perhaps an earlier save's, whose touch has not landed
					was = carried(r.meta)
				}
			}
		}
		if driver.MayUndo(ctx) {
			defer w.s.memo.Deleting(key)()
		}
		if err := w.s.touches.Closed(); err != nil {
			return wrap(ctx, op, err)
		}
		err := func() error {
			defer w.s.memo.Deleting(key)() // reads meanwhile may see the value without a life, and the answer may be lost
			return write(ctx, id, v)
		}()
		if err != nil {
			return err
		}
		if op == opInsert {
			gone()
		}
		wrote := w.s.touches.Wrote(ctx, key)
		touch := func(ctx context.Context, fate func() (deleted bool, err error)) (read bool, err error) {
			l, err := w.s.touchKey(ctx, key, func(r *readResult[T]) (driver.Life, error) {
				deleted, err := fate()
				if err != nil {
					return driver.Life{}, err
				}
				if read = true; !deleted {
					deleted, _ = w.s.touches.DeletedSince(key, since)
				}
				if !told && (deleted || was.CreatedAt != 0 && r.isPast(was.CreatedAt, w.s.clock)) {
					return driver.Life{}, nil
				}
				return was, nil
			}, true)
			if err == nil && !l.Alive(driver.Floor(w.s.clock.Now())) {
				err = ErrNotFound // the value tells that it is past its cap, and so does the store now
			}
			return read, err
		}
		read, err := touch(ctx, func() (deleted bool, err error) { return false, nil })
		if err != nil && !read && ctx.Err() != nil && w.s.local == nil && !driver.MayUndo(ctx) { // else that life is lost
			w.goOn(ctx, key, was, wrote, touch)
		}
		return wrap(ctx, opTouch, err)
	})
}

// goOn calls touch without ctx, which has ended, and does not wait for it. A touch that is not made counts as failed.
func (w *Wrapped[K, V, T]) goOn(ctx context.Context, key string, was driver.Life, wrote uint64, touch func(ctx context.Context, fate func() (deleted bool, err error)) (read bool, err error)) {
	failure := func(err error) error { return &Error{Op: opTouch, Err: err} }
	if !w.s.touches.GoOn(ctx, key, was, wrote, func(ctx context.Context, fate func() (deleted bool, err error)) (touched bool, err error) {
		err = w.s.recovered(func() (err error) {
			touched, err = touch(ctx, fate)
			return err
		})
		if err == nil || errors.Is(err, ErrNotFound) {
			return touched, nil
		}
		return touched, failure(err)
	}) {
		w.s.touches.Fail(ctx, key, failure(cmp.Or(w.s.touches.Closed(), ctx.Err())))
	}
}

// Delete removes the record under id. A record saved there afterwards begins a new life.
//
// It calls the repository's Delete(ctx, K) error if there is one, else the driver's.
func (w *Wrapped[K, V, T]) Delete(ctx context.Context, id K) error {
	return w.call(ctx, opDelete, id, func(key string) (err error) {
		r, own := w.repo.(interface {
			Delete(ctx context.Context, id K) error
		})
		defer w.s.deleting(ctx, key, &err, own)()
		if own {
			return r.Delete(ctx, id)
		}
		return wrap(ctx, opDelete, w.s.driver.Delete(ctx, key))
	})
}

func (w *Wrapped[K, V, T]) createdAt(v V) driver.Instant {
	if w.opts.CreatedAt == nil {
		return 0
	}
	return driver.Floor(w.opts.CreatedAt(v))
}
