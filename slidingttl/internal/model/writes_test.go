package model

import (
	"math"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// sent checks the time in a write's condition against the process's clock.
func (w *world) sent(key string, now driver.Instant, o *op) {
	if o.looks() {
		w.violated(2, key, "%v writes", o)
	}
	if now > floor(o.p.now()) || now < floor(o.p.clock(o.start)) {
		w.violated(5, key, "%v: a write is conditional on %d, the clock says %d", o, now, floor(o.p.now()))
	}
}

// checkFresh checks the life of a new record.
func (w *world) checkFresh(p *process, o *op, key string, v value, life driver.Life) {
	c := life.CreatedAt
	if c < floor(p.clock(o.start)) || c > floor(p.now()) {
		w.violated(5, key, "%v: a new record was created at %d, it is %d", o, c, floor(p.now()))
	}
	if !p.any(v.kind, o.start, time.Now(), func(r rule) bool {
		return life.ExpiresAt == up(r.written(c, c), w.step) || life.ExpiresAt == up(r.written(c, c+1), w.step)
	}) {
		w.violated(4, key, "%v: a new record of %d expires at %d, C + %v", o, c, life.ExpiresAt, life.ExpiresAt.Sub(c))
	}
}

// bound is the latest expiry that a reader at now need not lower by r. It differs by a
// millisecond between readers that round the time up and down.
func (w *world) bound(r rule, c, now driver.Instant) driver.Instant {
	return r.most(c, now) + driver.Instant((w.maxSkew+w.step)/ms)
}

// lowers reports whether promise 7 allows a write of o by r to lower an expiry to is. It is planned by the
// time of the write, which over memory may be held up from then on.
func (w *world) lowers(r rule, o *op, was, is driver.Life) bool {
	from := was.ExpiresAt
	if from == 0 {
		from = math.MaxInt64
	}
	first, last := floor(o.p.now()), ceil(o.p.now())
	if w.store == local {
		first = floor(o.p.clock(o.start))
	}
	skew := driver.Instant(w.maxSkew / ms)
	for now := first; now <= last; now++ {
		to := r.expiry(was.CreatedAt, now)
		if from > w.bound(r, was.CreatedAt, now) &&
			(is.ExpiresAt == up(to+skew, w.step) || is.ExpiresAt == up(min(to+skew, r.limit(was.CreatedAt)), w.step)) {
			return true
		}
	}
	return false
}

// checkLowering checks who lowers an expiry, and how often, against promise 7.
func (w *world) checkLowering(i *incarnation, o *op, key string, was driver.Meta, kind int) {
	if !i.hasRead(key, was) {
		w.violated(7, key, "%v lowers what a conflict handed back, %+v", o, was)
	}
	last, before := i.lowered[key]
	if before && !i.p.any(kind, o.start, time.Now(), func(r rule) bool {
		return time.Since(last) >= (r.IdleGrace+r.Slack)/8-2*ms
	}) {
		w.violated(7, key, "%v lowers again after %v", o, time.Since(last))
	}
}

// checkTouch checks a touch that is sent against the policy of its value. It returns the time
// if the touch lowers the expiry.
func (w *world) checkTouch(i *incarnation, o *op, key string, was driver.Meta, life driver.Life) (lowered time.Time) {
	p := i.p
	v, stored := w.byVersion[was.Version]
	if !stored {
		w.violated(4, key, "%v: a touch is for %+v, which was never stored", o, was)
		return lowered
	}
	if o.name == "delete entry" && life.CreatedAt == was.CreatedAt && !life.Alive(floor(p.now())) {
		return lowered // that is how it deletes
	}
	lo, hi := ceil(p.clock(o.start)), ceil(p.now())
	_, saved := o.saved(key, v)
	fits := func(r rule, c driver.Instant) bool {
		least, most := r.expiry(c, lo), r.expiry(c, hi)
		if saved { // with Promote a write of the value is no read
			least = r.written(c, lo)
		}
		if o.name == "save" && !o.i.saw[v.id] && !o.i.saw[o.value.id] { // a read may share its touch
			most = r.written(c, hi)
		}
		if p.opts.Budget > 0 && w.store != local {
			most = r.most(c, hi)
		}
		return life.ExpiresAt >= up(least, w.step) && life.ExpiresAt <= up(most, w.step) && life.ExpiresAt%driver.Instant(w.step/ms) == 0
	}
	if was.CreatedAt == 0 {
		if w.foreign != slidingttl.Adopt {
			w.violated(10, key, "%v adopts", o)
		}
		w.checkAdopted(o, key, v, life.CreatedAt)
		if !p.any(v.kind, o.start, time.Now(), func(r rule) bool { return fits(r, life.CreatedAt) || w.restores(r, o, key, v, life) }) {
			w.violated(10, key, "%v adopts with %+v at %d", o, life, hi)
		}
		return lowered
	}
	if life.CreatedAt != was.CreatedAt {
		w.violated(6, key, "%v moves created_at from %d to %d", o, was.CreatedAt, life.CreatedAt)
	}
	if was.ExpiresAt == 0 || life.ExpiresAt < was.ExpiresAt {
		if !p.any(v.kind, o.start, time.Now(), func(r rule) bool { return w.lowers(r, o, was.Life, life) }) {
			w.violated(7, key, "%v takes %v off %+v, now %d", o, was.ExpiresAt.Sub(life.ExpiresAt), was, hi)
		}
		w.checkLowering(i, o, key, was, v.kind)
		return time.Now()
	}
	if !p.any(v.kind, o.start, time.Now(), func(r rule) bool {
		later := driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt + 1}
		due := was.ExpiresAt < r.deadline(was.CreatedAt, hi+driver.Instant(r.Slack/16/ms)) || w.restores(r, o, key, v, later)
		return due && fits(r, was.CreatedAt) || w.restores(r, o, key, v, life)
	}) {
		w.violated(2, key, "%v touches %+v to E %d between %d and %d: not due, or not what the policy says", o, was, life.ExpiresAt, lo, hi)
	}
	return lowered
}

// saved returns when the save of v under key began whose touch o may be: o's own save, or an earlier
// one whose touch failed and none has landed since. Two saves at once may each read what the other
// wrote, and their touches are one.
func (o *op) saved(key string, v value) (began time.Time, ok bool) {
	own, before := o.i.saves[v.id], time.Now()
	if o.name == "save" {
		own = o
	}
	if own != nil {
		began, before, ok = own.start, own.start, true
	}
	if o.name != "save" && o.name != "queued touch" {
		return began, ok
	}
	for _, other := range o.i.saves {
		beside := own == nil || other.end.IsZero() || other.end.After(own.start) || other.touchFailed &&
			!o.p.w.sometime(key, other.end, before, func(s *state, _, _ time.Time) bool { return s.present && s.CreatedAt != 0 })
		if other.key == key && beside && (!ok || other.start.Before(began)) {
			began, ok = other.start, true
		}
	}
	return began, ok
}

// restores reports whether o restores the life that the record had before it was saved as v,
// or that life as lowered by a tighter policy. r has to allow it.
func (w *world) restores(r rule, o *op, key string, v value, life driver.Life) bool {
	began, ok := o.saved(key, v)
	return ok && life.ExpiresAt <= w.bound(r, life.CreatedAt, ceil(o.p.now())) &&
		w.sometime(key, began, time.Now(), func(s *state, _, _ time.Time) bool {
			return s.present && s.CreatedAt == life.CreatedAt && s.ExpiresAt >= life.ExpiresAt
		})
}

// checkAdopted checks the created_at that a record without one gets: the time of its adoption,
// or for a wrapped repository's record the one that it had before.
func (w *world) checkAdopted(o *op, key string, v value, c driver.Instant) {
	if c >= floor(o.p.clock(o.start)) && c <= floor(o.p.now()) {
		return
	}
	if began, ok := o.saved(key, v); ok && w.sometime(key, began, time.Now(), func(s *state, first, _ time.Time) bool {
		return s.present && s.CreatedAt == c && s.Alive(floor(o.p.clock(first)))
	}) {
		return
	}
	w.violated(5, key, "%v gives a record the created_at %d, %v ago", o, c, floor(o.p.now()).Sub(c))
}

// checkOverwrite checks the life that an overwrite of was, planned at at, writes. It returns
// the time if the write lowers the expiry.
func (w *world) checkOverwrite(i *incarnation, o *op, key string, v value, was driver.Meta, life driver.Life, at driver.Instant) (lowered time.Time) {
	p := i.p
	old, stored := w.byVersion[was.Version]
	if !stored {
		w.violated(6, key, "%v overwrites %+v, which was never stored", o, was)
		return lowered
	}
	dead := func(r rule) bool { return r.dead(was.Life, at) }
	if was.CreatedAt == 0 && w.foreign != slidingttl.Adopt && !p.any(old.kind, o.start, time.Now(), dead) {
		w.violated(10, key, "%v overwrites a foreign record", o)
	}
	if was.CreatedAt == 0 || life.CreatedAt != was.CreatedAt {
		outlived := func(r rule) bool { return r.dead(driver.Life{CreatedAt: was.CreatedAt}, at) }
		if was.CreatedAt != 0 && !p.any(old.kind, o.start, time.Now(), dead) && !p.any(v.kind, o.start, time.Now(), outlived) {
			w.violated(6, key, "%v gives the live record %+v another created_at, %d", o, was, life.CreatedAt)
		}
		w.checkFresh(p, o, key, v, life)
		return lowered
	}
	if o.name == "update" && !was.Alive(at) {
		return lowered // the driver refuses it
	}
	// The cap of the value that is overwritten is known only where all have the same.
	if !p.any(old.kind, o.start, time.Now(), func(r rule) bool { return !dead(r) || w.policyOf && was.Alive(at) }) {
		w.violated(5, key, "%v keeps the created_at of %+v, dead at %d", o, was, at)
	}
	lo, hi := ceil(p.clock(o.start)), ceil(p.now())
	e := life.ExpiresAt
	kept := func(r rule) bool {
		least, most := up(r.written(was.CreatedAt, lo), w.step), up(r.written(was.CreatedAt, hi), w.step)
		return e >= was.ExpiresAt && was.ExpiresAt != 0 && e >= least && (e <= most && e%driver.Instant(w.step/ms) == 0 || e == was.ExpiresAt)
	}
	if p.any(v.kind, o.start, time.Now(), kept) {
		return lowered
	}
	if !p.any(v.kind, o.start, time.Now(), func(r rule) bool { return w.lowers(r, o, was.Life, life) }) {
		w.violated(7, key, "%v writes %+v over %+v between %d and %d", o, life, was, lo, hi)
		return lowered
	}
	w.checkLowering(i, o, key, was, v.kind)
	return time.Now()
}

// checkFrom checks that an update lands on the value that it started from.
func (w *world) checkFrom(key string, v value) {
	if s := w.last(key); v.from != 0 && s.value.id != v.from {
		w.violated(6, key, "an update made from value %d lands on value %d", v.from, s.value.id)
	}
}
