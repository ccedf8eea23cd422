package model

import (
	"cmp"
	"math"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// duty is what an access must leave: an expiry that keeps its promise and is no later than
// its policy allows.
type duty struct {
	*op
	key string         // one of a GetMulti's
	gen driver.Instant // created_at of what was read; zero: it had none
	id  int            // the value, if it must stay that; else 0
}

// overlaps reports whether s comes from a write that lowered the expiry and that the access
// could not know of: it was under way, or the access relied on an earlier read and policies
// differ. The tighter one has then won.
func (d *duty) overlaps(s *state) bool {
	w := d.p.w
	if d.name == "touch entry" || d.reads == 0 && (d.name == "keep" || d.name == "find") {
		return w.mixed || w.changing || w.policyOf || w.plants
	}
	return !s.lowered.IsZero() && !s.from.Before(d.start.Add(-w.plan.stale)) && !s.lowered.After(d.end)
}

// owe records the duty for key of an access that has returned.
func (w *world) owe(o *op, key string, v *value) {
	gen, n := driver.Instant(0), 0
	w.during(key, o.start.Add(-w.plan.stale), o.end, func(s *state, first, last time.Time) bool {
		if !s.present || v != nil && s.value != *v {
			return true
		}
		if n == 0 || s.CreatedAt != gen && gen != 0 {
			n++ // adoption gives a record its first created_at
		}
		gen = s.CreatedAt
		return true
	})
	if n != 1 || gen == 0 && (w.foreign != slidingttl.Adopt || o.name == "find" && w.plan.stale > 0) {
		return
	}
	if o.reads > 0 || w.memory != nil {
		o.i.met[key] = gen
	} else if (o.name == "keep" || o.name == "find") && (gen == 0 || o.i.met[key] != gen) {
		return // it relied on what it remembers of another record
	}
	d := duty{op: o, key: key, gen: gen}
	if o.name == "touch entry" {
		d.id = v.id
	}
	o.i.duties = append(o.i.duties, d)
}

// settle checks those duties of i whose touches have ended.
func (w *world) settle(i *incarnation) {
	if len(i.duties) == 0 {
		return
	}
	now, pending := time.Now(), i.pending()
	open := i.duties[:0]
	for _, d := range i.duties {
		if i.closed.IsZero() && (pending || i.busy[d.key] > 0 || !i.ended[d.key].Before(now)) || !d.end.Before(now) {
			open = append(open, d)
			continue
		}
		w.judge(d)
	}
	i.duties = open
}

// judge checks the record as it is now against the duty of an earlier access.
func (w *world) judge(d duty) {
	p, now := d.p, time.Now()
	at := ceil(p.clock(d.start))
	void := false
	gen := d.gen
	var used [kinds]bool
	var value int // the first one: of records without created_at only the value tells which is which
	var end *state
	same := true // the expiry has been the same since the access began, and the policy
	w.during(d.key, d.start.Add(-w.plan.stale), d.start, func(s *state, _, _ time.Time) bool {
		used[s.value.kind] = true // it may have used that policy
		if void = w.plan.stale > 0 && (s.present && s.CreatedAt != gen || d.overlaps(s)); s.present && d.gen == 0 {
			void = void || value != 0 && s.value.id != value // it may have read the one before
			value = s.value.id
		}
		return !void
	})
	if void {
		return
	}
	w.during(d.key, d.start, now, func(s *state, first, last time.Time) bool {
		value = cmp.Or(value, s.value.id)
		void = d.gen == 0 && s.value.id != value
		if gen == 0 && s.CreatedAt != 0 {
			gen = s.CreatedAt
		}
		void = void || !s.present || s.CreatedAt != gen || d.id != 0 && s.value.id != d.id ||
			p.any(s.value.kind, d.start, now, func(r rule) bool { return r.dead(s.Life, floor(p.clock(last))) }) ||
			w.memory != nil && s.ExpiresAt != 0 && s.ExpiresAt <= floor(last) ||
			d.overlaps(s)
		used[s.value.kind] = true
		same = same && (end == nil || end.ExpiresAt == s.ExpiresAt && end.value.kind == s.value.kind)
		end = s
		return !void
	})
	if void {
		return
	}
	if t, failed := d.i.failed[d.key]; failed && !t.Before(d.start) {
		return // and was counted
	}
	// While policies differ, the tighter one may win.
	owed := driver.Instant(math.MaxInt64)
	for _, p := range w.processes {
		for _, t := range p.tables {
			for kind, ok := range used {
				if ok {
					owed = min(owed, t.of[kind].deadline(gen, at))
				}
			}
		}
	}
	// Wrap's doc: what another process has touched between a save's read and its write is lost.
	if d.key[0] == 'w' && d.reads == 0 && (d.name == "keep" || d.name == "find") &&
		w.sometime(d.key, time.Time{}, d.start, func(s *state, _, _ time.Time) bool {
			return s.present && s.CreatedAt == gen && s.ExpiresAt >= owed
		}) {
		return
	}
	if gen == 0 || end.ExpiresAt != 0 && end.ExpiresAt < owed {
		if d.i.closing.IsZero() || d.i.abandoned == 0 {
			w.violated(3, d.key, "%v from %s to %s: expires at %d, %v before the deadline that it promised", d.op,
				stamp(d.start), stamp(d.end), end.ExpiresAt, owed.Sub(end.ExpiresAt))
		}
		d.i.unpaid[d.key] = true
		return
	}
	if same && w.at(d.key, d.start.Add(-w.plan.stale)).Meta == end.Meta {
		w.judgeTight(d, end)
	}
}

// judgeTight checks an expiry that an access did not lower against promise 7.
func (w *world) judgeTight(d duty, s *state) {
	p := d.p
	if d.name == "keep" || d.name == "find" || d.name == "touch entry" {
		return // they rely on an expiry that was lower once
	}
	expiry := s.ExpiresAt
	if expiry == 0 {
		expiry = math.MaxInt64
	}
	written := d.end
	if w.faults > 0 || w.lost > 0 || w.slow > 0 || w.outages > 0 || p.opts.Budget > 0 || p.opts.Touches == slidingttl.Background {
		written = time.Now() // it may have waited until now
	}
	if !w.ownClock {
		written = written.Add(coarse) // a read uses the later of the clock's bounds
	}
	if p.any(s.value.kind, d.start, time.Now(), func(r rule) bool {
		// From the lowering's answer, two trips after it was sent, to the access's decision, up to
		// two before its end.
		window := (r.IdleGrace+r.Slack)/8 + 2*(2*w.trip+w.slow) + 2*ms
		for _, when := range []map[string]time.Time{d.i.lowered, d.i.unsure} {
			if last, before := when[d.key]; before && d.end.Sub(last) < window {
				return true
			}
		}
		return !d.i.refused[d.key].Before(d.start) || expiry <= w.bound(r, s.CreatedAt, ceil(p.clock(written))+1)
	}) {
		return
	}
	if !d.i.closing.IsZero() && d.i.abandoned > 0 {
		return
	}
	w.violated(7, d.key, "%v from %s to %s leaves the expiry %d, %v from its end", d.op, stamp(d.start), stamp(d.end), s.ExpiresAt, s.ExpiresAt.Sub(floor(p.clock(d.end))))
}

func stamp(t time.Time) string { return t.UTC().Format("04:05.000000000") }
