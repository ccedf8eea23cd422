package touches

import (
	"context"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Deletion is the last one of a key that has this hash.
type Deletion struct {
	hash         uint64
	began, ended driver.Instant
	first, clock uint64      // the memo's clock, as it began and after it
	found        bool        // it deleted nothing: the record was found to be gone
	gone         bool        // for good
	was          driver.Meta // what the memo had of key; zero: nothing
}

// Deletes returns a deletion that begins now, before which the memo forgets key.
func (t *Touches) Deletes(key string) Deletion {
	var was driver.Meta // and not the memo's own, which holds the key
	if m := t.Memo.Forget(key); m != nil {
		was = *m
	}
	return Deletion{began: t.now(), first: t.Memo.Clock(), was: was}
}

// Deleted is called when the deletion began has deleted key's record, or may have, for the touches of a
// record without created_at, which cannot tell the next one from it. From now on they give it no earlier life, nor
// do those of accesses that began before. With gone, for good, those that came before it are over. It waits for the one
// that runs until ctx ends, at most Timeout; not in a transaction, for which that one may wait. found: nothing was
// deleted, and the record was found to be gone.
func (t *Touches) Deleted(ctx context.Context, key string, began Deletion, gone, found bool) {
	d := &began
	d.ended, d.gone, d.found = t.now(), gone, found
	var runs chan struct{}
	t.lock()
	if t.Memo != nil {
		d.hash, d.clock = t.Memo.hash(key), t.Memo.clock.Add(1)
		t.deletions[d.hash%uint64(len(t.deletions))] = d
	}
	for _, n := range t.of(key) {
		if n.readTouch != nil { // it sets Was as it runs
			continue
		}
		n.deleted = n.deleted || d.kills(&n.Access)
		switch {
		case n.Was.CreatedAt != 0:
		case n.state == running:
			n.orphan, runs = d, n.done
		case d.ends(&n.Access):
			t.end(n, Outcome{Was: n.Was, Err: ErrGone, result: Lost})
		default:
			n.disown(d)
			t.reorder(n)
		}
	}
	for _, c := range t.carries {
		if c.key == key {
			c.deleted, c.over = true, c.over || gone && c.wrote < d.first
		}
	}
	t.dispatch()
	t.unlock()
	if runs == nil || driver.MayUndo(ctx) {
		return
	}
	timer := time.NewTimer(t.Timeout)
	defer timer.Stop()
	select {
	case <-runs:
	case <-timer.C:
	case <-ctx.Done():
	case <-t.stop.Done():
	}
}

// deletion returns the last deletion of a's key if that has ended since its record was read; else nil. Without a memo,
// over a local driver, nothing comes between.
func (t *Touches) deletion(a *Access) *Deletion {
	if t.Memo == nil {
		return nil
	}
	hash := t.Memo.hash(a.Key)
	d := t.deletions[hash%uint64(len(t.deletions))]
	if d == nil || d.hash != hash || d.clock <= a.Since {
		return nil
	}
	return d
}

// deletedSince is deletion for a record without created_at, and else nil.
func (t *Touches) deletedSince(a *Access) *Deletion {
	if a.Was.CreatedAt != 0 {
		return nil
	}
	return t.deletion(a)
}

// kills reports whether d, nil for none, has deleted a's record, and began before that died.
func (d *Deletion) kills(a *Access) bool {
	if d == nil || d.found || !d.ends(a) || a.Was.CreatedAt > d.began {
		return false
	}
	extended := d.was.CreatedAt != 0 && d.was.CreatedAt == a.Was.CreatedAt && d.was.Alive(d.began)
	return extended || a.Was.Alive(d.began)
}

// DeletedSince reports whether key's record may have been deleted since the memo's clock was since, and whether for
// good.
func (t *Touches) DeletedSince(key string, since uint64) (maybe, gone bool) {
	if t.Memo.Clock() == since {
		return false, false // not even another key's
	}
	t.lock()
	defer t.unlock()
	d := t.deletedSince(&Access{Key: key, Since: since})
	return d != nil, d != nil && d.gone
}

// before reports whether a read its record before d began.
func (d *Deletion) before(a *Access) bool { return a.Since < d.first }

// ends reports whether a's record is gone for good by d.
func (d *Deletion) ends(a *Access) bool { return d.gone && d.before(a) }

// disown takes the life of the record before d off a, whose own may be the next one. An access before d began does
// not tell when that was born. A created_at that the value told, which has no expiry, stays unless the record is gone
// for good.
func (a *Access) disown(d *Deletion) {
	if told := a.Before.ExpiresAt == 0; !told || d.ends(a) {
		a.Before = driver.Life{}
	}
	if d.before(a) {
		a.Birth = max(a.Birth, d.ended)
	}
}

// leaves makes the touch that waits for the orphan n, which has failed, serve its accesses too. That one may be of the next
// record, and n's failure is not its own. It reports false if there is none.
func (t *Touches) leaves(n *touch) bool {
	if n.orphan == nil {
		return false
	}
	n.disown(n.orphan)
	for _, p := range n.of.pending {
		if sameLife(p.Was, n.Was) {
			t.count(n.ctx, &n.Access, Outcome{result: Shared}, time.Time{})
			p.merge(n.Access)
			p.valued, p.unawaited, p.deleted = p.valued || n.valued, p.unawaited || n.unawaited || n.alive(), p.deleted || n.deleted
			t.reorder(p)
			return true
		}
	}
	return false
}
