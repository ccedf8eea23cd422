package model

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// absent reports whether "not found" was a right answer for key: at some moment of the
// call the record was not there, or dead by the process's clock.
func (w *world) absent(o *op, key string) bool { return w.absentBy(o, key, 0) }

// absentBy is absent by a clock that is so far ahead of the process's.
func (w *world) absentBy(o *op, key string, ahead time.Duration) bool {
	p := o.p
	gone := func(s *state, _, last time.Time) bool {
		return !s.present ||
			p.any(s.value.kind, o.start, o.end, func(r rule) bool { return r.dead(s.Life, floor(p.clock(last).Add(ahead))) }) ||
			w.memory != nil && s.ExpiresAt != 0 && s.ExpiresAt <= floor(last) // by the memory driver's clock
	}
	if w.sometime(key, o.start, o.end, gone) {
		return true
	}
	// A stale read may also miss a record that is new.
	return w.plan.stale > 0 && w.sometime(key, o.start.Add(-w.plan.stale), o.start, func(s *state, _, last time.Time) bool {
		now := w.at(key, o.start)
		return gone(s, last, last) && (!s.present || s.CreatedAt != now.CreatedAt || s.value != now.value)
	})
}

// readable reports whether a record that ok holds for was alive at some moment of the
// call by the process's clock.
func (w *world) readable(o *op, key string, ok func(*state) bool) bool {
	p := o.p
	return w.sometime(key, o.start.Add(-w.plan.stale), o.end, func(s *state, first, last time.Time) bool {
		if first.Before(o.start) {
			first = o.start
		}
		return s.present && ok(s) && p.any(s.value.kind, o.start, o.end, func(r rule) bool { return !r.dead(s.Life, floor(p.clock(first))) })
	})
}

// answered checks a value that a read returned.
func (w *world) answered(o *op, key string, v value) {
	is := func(s *state) bool { return s.value == v }
	alive := is
	if o.name == "find" {
		alive = func(*state) bool { return true } // its life is read after it, or remembered
	}
	if w.readable(o, key, alive) || o.name == "find" && o.reads == 0 {
		return
	}
	if w.sometime(key, o.start.Add(-w.plan.stale), o.end, func(s *state, _, _ time.Time) bool { return s.present && is(s) }) {
		w.violated(4, key, "%v from %s to %s returns value %d, which was dead", o, stamp(o.start), stamp(o.end), v.id)
		return
	}
	w.violated(8, key, "%v from %s to %s returns value %d, which was not stored", o, stamp(o.start), stamp(o.end), v.id)
}

// entered is answered for a record that is returned with its life and version.
func (w *world) entered(o *op, key string, e driver.Entry[value]) {
	w.answered(o, key, e.Value)
	from := o.start.Add(-w.plan.stale - w.slow - 2*w.trip) // by a touch that was under way
	if !w.sometime(key, from, o.end, func(s *state, _, _ time.Time) bool {
		return s.present && s.Meta == e.Meta && s.value == e.Value
	}) {
		w.violated(8, key, "%v returns value %d with %+v, which it did not have", o, e.Value.id, e.Meta)
	}
}

// until checks what a Touch returned.
func (w *world) until(o *op, t driver.Instant) {
	if !w.sometime(o.key, o.start.Add(-w.plan.stale), o.end, func(s *state, _, _ time.Time) bool {
		return s.present && o.p.any(s.value.kind, o.start, o.end, func(r rule) bool {
			// Another touch may have served it, and one more may have come after.
			return t >= r.deadline(s.CreatedAt, ceil(o.p.clock(o.start))) && (s.ExpiresAt == 0 || t <= s.ExpiresAt) || t == min(s.ExpiresAt, r.limit(s.CreatedAt))
		})
	}) && !w.overtaken(o, t) {
		w.violated(8, o.key, "%v returns %d, which was not stored", o, t)
	}
}

// overtaken reports whether t was stored by a touch whose answer was under way when o began,
// and was lowered since: the tighter policy has won.
func (w *world) overtaken(o *op, t driver.Instant) bool {
	tighter := w.mixed || w.changing || w.policyOf
	return tighter && w.sometime(o.key, o.start.Add(-w.plan.stale-w.slow-2*w.trip), o.end, func(s *state, _, _ time.Time) bool {
		return s.present && (s.ExpiresAt == t || o.p.any(s.value.kind, o.start, o.end, func(r rule) bool {
			return t == min(s.ExpiresAt, r.limit(s.CreatedAt))
		}))
	})
}

// leftOut checks a key that is missing in an answer for many.
func (w *world) leftOut(o *op, key string) {
	if !w.absent(o, key) {
		w.violated(3, key, "%v from %s to %s leaves a live key out", o, stamp(o.start), stamp(o.end))
	}
}

// absence is a call that has found nothing under a key, or deleted it.
type absence struct {
	start  time.Time
	effect time.Time // from then on there was nothing
	told   time.Time // when the call returned
}

// deleted records a delete that succeeded.
func (w *world) deleted(o *op, key string) {
	a := absence{start: o.start, effect: o.start, told: o.end}
	for _, s := range w.truth[key] {
		if s.by == o.String() {
			a.effect = s.from.Add(time.Nanosecond) // if two states share an instant, either may come first
		}
	}
	o.i.gone[key] = a
}

// kept checks the answer of a Keep. One that began after this process's delete had returned
// must not rely on what was stored before the delete took effect.
func (w *world) kept(o *op) {
	gone, ok := o.i.gone[o.key]
	if !ok {
		return // it may rely on what it remembers, however old
	}
	from := gone.start
	if o.start.After(gone.told) {
		from = gone.effect
	} else if o.start.Before(from) {
		from = o.start
	}
	if !w.sometime(o.key, from.Add(-w.plan.stale), o.end, func(s *state, first, _ time.Time) bool {
		return s.present && o.p.any(s.value.kind, o.start, o.end, func(r rule) bool { return !r.dead(s.Life, floor(o.p.clock(first))) })
	}) {
		w.violated(5, o.key, "%v succeeds for a record that this process saw gone", o)
	}
}

// wrote checks the answer of a write.
func (c *client) wrote(o *op, e slidingttl.Entry[value], err error) {
	if !c.finish(o, err) {
		return
	}
	c.see(o, o.key, e)
	if !c.sometime(o.key, o.start, o.end, func(s *state, _, _ time.Time) bool {
		return s.present && s.Meta == e.Meta && s.value == o.value
	}) {
		c.violated(8, o.key, "%v returns %+v, which was not stored", o, e)
	}
}
