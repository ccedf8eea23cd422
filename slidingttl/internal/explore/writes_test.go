package explore

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// judgeFresh checks the life of a new record.
func (w *world) judgeFresh(p *process, r *run, life driver.Life) {
	if !w.planned(p, r, func(rule slidingttl.Policy, floor, at driver.Instant) bool {
		return life.CreatedAt == floor && life.ExpiresAt == w.expiry(rule, floor, at)
	}) {
		w.violated("fresh", "%v writes a record created %s that expires %s", r, w.since(life.CreatedAt), w.since(life.ExpiresAt))
	}
}

// judgeTouch checks a touch that was sent at now and is about to land.
func (w *world) judgeTouch(p *process, r *run, life driver.Life, now driver.Instant) {
	was := w.truth.last()
	if r == nil || r.name != "retire" {
		for _, other := range w.runs {
			switch {
			case other.name != "retire" || other.deleted == 0 || other.retired != was.CreatedAt || other.value != was.value || life.ExpiresAt <= was.ExpiresAt:
			case driver.Floor(p.now()).Sub(now) > 5*time.Second:
				other.deleted = 0 // undone by a touch that has been on its way for longer than its timeout, as if by a clock far behind
			default:
				w.violated("revived", "a touch of %v in process %d moves the expiry of a life that %v has retired by %v", r, p.id, other, life.ExpiresAt.Sub(was.ExpiresAt))
			}
		}
	}
	switch {
	case r != nil && r.name == "retire":
		w.judgeRetire(p, r, was, life)
		return
	case was.CreatedAt == 0:
		w.judgeAdoption(p, r, was, life)
		return
	case life.CreatedAt != was.CreatedAt:
		w.violated("created", "a touch of %v moves created_at from %s to %s", r, w.since(was.CreatedAt), w.since(life.CreatedAt))
		return
	case life.ExpiresAt < was.ExpiresAt:
		w.judgeLowering(p, r, was, life)
		return
	}
	due := w.planned(p, r, func(rule slidingttl.Policy, _, at driver.Instant) bool {
		return was.ExpiresAt < deadline(rule, was.CreatedAt, at+millis(rule.Slack)/16)
	})
	fits := w.planned(p, r, func(rule slidingttl.Policy, _, at driver.Instant) bool {
		return w.writable(rule, was.CreatedAt, at, life.ExpiresAt)
	})
	if w.has("save") { // it restores the life that it overwrote, lowered to the policy
		due = true
		for i := range w.truth.states {
			wiped := &w.truth.states[i]
			fits = fits || wiped.ExpiresAt == life.ExpiresAt || w.planned(p, r, func(rule slidingttl.Policy, _, at driver.Instant) bool {
				return w.lowered(rule, wiped.Life, at, life.ExpiresAt)
			})
		}
	}
	if !due || !fits {
		w.violated("due", "a touch of %v moves the expiry from %s to %s: it is due %v, of the policy %v",
			r, w.since(was.ExpiresAt), w.since(life.ExpiresAt), due, fits)
	}
}

// judgeRetire checks a touch that ends a life: it must write the present time.
func (w *world) judgeRetire(p *process, r *run, was *state, life driver.Life) {
	r.deleted, r.retired, r.value = w.step, was.CreatedAt, was.value
	created := life.CreatedAt == was.CreatedAt || was.CreatedAt == 0
	if !created || !w.planned(p, r, func(_ slidingttl.Policy, floor, at driver.Instant) bool {
		return life.ExpiresAt == floor-skewed-(floor-skewed)%millis(w.resolution())
	}) {
		w.violated("created", "%v makes of a record created %s one created %s that expires %s",
			r, w.since(was.CreatedAt), w.since(life.CreatedAt), w.since(life.ExpiresAt))
	}
}

// judgeAdoption checks the created_at that a touch gives to a record without one: the present
// time, or that of the record that it continues.
func (w *world) judgeAdoption(p *process, r *run, was *state, life driver.Life) {
	if w.planned(p, r, func(_ slidingttl.Policy, floor, _ driver.Instant) bool { return life.CreatedAt == floor }) {
		return
	}
	// A save continues the record that its first read found. It cannot see a delete between
	// that and its write.
	if saver := was.by; saver != nil && saver.saved > 0 && saver.before.CreatedAt == life.CreatedAt {
		return
	}
	for i := len(w.truth.states) - 1; i >= 0 && w.truth.states[i].present; i-- {
		if w.truth.states[i].CreatedAt == life.CreatedAt {
			return
		}
	}
	// A save takes what it reads first after its write for what it wrote, because the
	// repository returns no version. See Wrap.
	if r != nil && r.readBack != nil && *r.readBack == was.Meta && r.before.CreatedAt == life.CreatedAt {
		w.excepted++
		return
	}
	w.violated("adopts", "%v gives value %d, written by %v, the created_at %s", r, was.value.id, was.by, w.since(life.CreatedAt))
}

// judgeLowering checks a write that lowers an expiry.
func (w *world) judgeLowering(p *process, r *run, was *state, life driver.Life) {
	if !w.planned(p, r, func(rule slidingttl.Policy, _, at driver.Instant) bool {
		return w.lowered(rule, was.Life, at, life.ExpiresAt)
	}) {
		w.violated("forward", "%v lowers the expiry by %v", r, was.ExpiresAt.Sub(life.ExpiresAt))
	}
	from := 0
	if r != nil {
		from = r.from
	}
	for _, last := range p.lowered {
		if !p.ever(from, w.step, func(rule slidingttl.Policy) bool { return time.Since(last) >= (rule.IdleGrace+rule.Slack)/8 }) {
			w.violated("lowers", "%v of process %d lowers the expiry %v after the last time", r, p.id, time.Since(last))
		}
	}
	p.lowered = append(p.lowered, time.Now())
}

// judgeReplace checks a write of v over a live record that is about to land.
func (w *world) judgeReplace(p *process, r *run, v value, life driver.Life) {
	was := w.truth.last()
	if v.from != 0 && v.from != was.value.id {
		w.violated("created", "%v writes over value %d what it made of value %d", r, was.value.id, v.from)
	}
	if life.CreatedAt != was.CreatedAt {
		died := w.planned(p, r, func(rule slidingttl.Policy, floor, _ driver.Instant) bool { return dead(rule, was.Life, floor) })
		if !died && was.CreatedAt != 0 {
			w.violated("created", "%v moves the created_at of a live record from %s to %s", r, w.since(was.CreatedAt), w.since(life.CreatedAt))
		}
		w.judgeFresh(p, r, life)
		return
	}
	if !w.planned(p, r, func(rule slidingttl.Policy, floor, _ driver.Instant) bool { return !dead(rule, was.Life, floor) }) {
		w.violated("adopts", "%v keeps the created_at of a dead record", r)
	}
	switch {
	case life.ExpiresAt < was.ExpiresAt:
		w.judgeLowering(p, r, was, life)
	case life.ExpiresAt > was.ExpiresAt && !w.planned(p, r, func(rule slidingttl.Policy, _, at driver.Instant) bool {
		return w.writable(rule, was.CreatedAt, at, life.ExpiresAt)
	}):
		w.violated("due", "%v moves the expiry from %s to %s", r, w.since(was.ExpiresAt), w.since(life.ExpiresAt))
	}
}
