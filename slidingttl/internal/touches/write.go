package touches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

// touchAttempts bounds the attempts of one touch. The writer that wins a race moves the expiry, so
// a second attempt mostly finds nothing left to do. Writers whose clocks are behind may win some
// in a row.
const touchAttempts = 16

// write writes what a needs, and plans again after a conflict. most bounds a read that comes first, and then all
// other trips together; zero: ctx bounds them. readFirst: a.Was and its rules may be stale.
func (t *Touches) write(ctx context.Context, most time.Duration, a *Access, readFirst bool) Outcome {
	trips, end := within(ctx, most)
	defer func() { end() }()
	o := Outcome{Was: a.Was, Meta: a.Was}
	r, read, err := a.Rules, true, error(nil)
	began, at := a.Birth, a.At // with a local driver no time has passed
	claim, since := driver.Instant(0), a.Since
	defer func() { t.Lowered(a.Key, claim, false, nil) }()
	for attempt := range touchAttempts {
		m := o.Meta
		if t.Rules != nil { // what was read may have been written by newer ones than a's
			if r, err = t.Rules(a.Key); err != nil {
				break
			}
		}
		if !t.Local || attempt > 0 {
			began, at = t.instants()
		}
		if readFirst || !r.Alive(m.Life, began) {
			since = t.Memo.Clock()
			if m, r, err = t.Read(trips, a.Key); err != nil {
				break
			}
			if attempt == 0 {
				end()
				trips, end = within(ctx, most)
			}
			o.Meta, read, readFirst = m, true, false
			if a.Was.CreatedAt != 0 && m.CreatedAt != a.Was.CreatedAt {
				err = ErrReplaced
				break
			}
			if began, at = t.instants(); !r.Alive(m.Life, began) {
				readFirst, err = true, ErrGone // unless another process has touched it since
				continue
			}
		}
		before := a.Before
		another := m.Version != a.Was.Version || a.Was.Version == 0 && m != a.Was
		later := a.Was.ExpiresAt != 0 && m.CreatedAt >= a.Was.ExpiresAt                // and not adopted
		if a.Was.CreatedAt == 0 && another && (m.CreatedAt == 0 || a.Exact || later) { // or perhaps
			err = ErrReplaced
			break
		}
		if m.Version != a.Was.Version {
			before = driver.Life{}
		}
		life := m.Life
		if r.Due(m.Life, a.DueFrom) || restores(m.Life, before) {
			// A first expiry may have passed since the access: the clock was set, or the touch waited. The access then
			// counts from now; and so does the record's life, if its cap has passed too.
			for _, from := range [...]struct{ at, birth driver.Instant }{{a.At, a.Birth}, {at, a.Birth}, {at, max(began, 1)}} {
				if life = t.planned(a, r, m.Life, before, from.at, from.birth); life.Alive(began) {
					break
				}
			}
		} else if read {
			if claim = t.Lower(r, a.Key, &m, at); claim != 0 {
				life, _ = r.Lowered(m.Life, at)
			}
		}
		o.Cap = r.Cap(life.CreatedAt)
		if life == m.Life {
			beside, unended := t.awaitLowering(trips, a.Key, since)
			if !beside {
				o.result = Shared
				return o
			}
			if err = cmp.Or(unended, t.Closed()); err != nil {
				break
			}
			readFirst, err = true, driver.ErrConflict // what is left may be less than a is owed
			continue
		}
		if err = cmp.Or(trips.Err(), t.Closed()); err != nil {
			break
		}
		o.tried = true
		planned := t.Memo.Clock()
		var version driver.Version
		version, err = t.Write(trips, a.Key, m, life, began)
		if err == nil {
			if o.Replaced, o.Meta = m, (driver.Meta{Life: life, Version: version}); m.CreatedAt == 0 && !a.Saved {
				t.Tally.Add(tally.Adopted)
			}
			t.Memo.Touched(a.Key, o.Replaced, o.Meta, planned, began, true)
		}
		t.Lowered(a.Key, claim, !driver.MayUndo(ctx), err)
		claim = 0
		if err == nil {
			return o
		}
		conflict, ok := errors.AsType[*driver.ConflictError](err)
		if !ok {
			break
		}
		o.Meta = conflict.Found
		if m.CreatedAt != o.Meta.CreatedAt && m.CreatedAt != 0 || m.CreatedAt == 0 && a.Exact && m != o.Meta {
			err = ErrReplaced
			break
		}
		readFirst, read = t.ByValue && o.Meta.Version != m.Version, false
	}
	return t.missed(a, o, err)
}

// within returns a context that ends after most, if that is not zero.
func within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if most == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, most)
}

// errUnended says that another's write that is to lower the expiry has not ended in time, which says nothing of the store.
var errUnended = errors.New("another write that is to lower the expiry has not ended")

// awaitLowering waits for another's write that is to lower key's expiry, at most Timeout, and reports whether there was
// one since the memo's clock was since. In a transaction of ctx it does not wait: that write may wait for the
// transaction.
func (t *Touches) awaitLowering(ctx context.Context, key string, since uint64) (beside bool, err error) {
	lowered := t.lowering.ended(key, since)
	if lowered == nil || driver.MayUndo(ctx) {
		return false, nil
	}
	ctx, end := context.WithTimeout(ctx, t.Timeout)
	defer end()
	select {
	case <-lowered:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", errUnended, ctx.Err())
	case <-t.stop.Done():
	}
	return true, err
}

// planned is the life that a's touch writes over l for an access at at. created is the created_at of a
// record that has none.
func (t *Touches) planned(a *Access, r *rules.Rules, l, before driver.Life, at, created driver.Instant) (life driver.Life) {
	if created = cmp.Or(before.CreatedAt, created); a.Saved {
		life = r.Saved(l, at, created)
	} else {
		life = r.Touched(l, at, created, t.budget.grown(r))
	}
	if restores(life, before) {
		life.ExpiresAt = before.ExpiresAt
	}
	if l.CreatedAt != 0 {
		life.ExpiresAt = max(life.ExpiresAt, l.ExpiresAt) // a.DueFrom may come from another policy
	}
	return life
}

// missed returns the outcome of a touch that ended with err.
func (t *Touches) missed(a *Access, o Outcome, err error) Outcome {
	if errors.Is(err, driver.ErrNotFound) {
		err = ErrGone
	}
	if o.Err, o.result = err, Failed; o.lost() {
		t.Memo.Forget(a.Key)
		o.result = Lost
	}
	if errors.Is(err, driver.ErrLocked) {
		o.result = Deferred
	} else if t.stop.Err() != nil && !o.lost() {
		if o.Err = ErrClosed; o.tried { // Close ended the touch's context
			o.Err = errGivenUp
		}
	}
	return o
}
