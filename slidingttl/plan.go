package slidingttl

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// rules is a policy on a store of some resolution, in milliseconds: what a record
// is promised, when a touch is due, and what a write stores. Pure, and for every
// read, so it is spared divisions.
type rules struct {
	keep    driver.Instant // what an access must leave of a life: IdleGrace, or with Promote all there is
	stored  driver.Instant // IdleGrace + Slack
	most    driver.Instant // MaxLifetime
	promote bool
	step    time.Duration // the store's resolution
}

func newRules(p Policy, step time.Duration) rules {
	idle := driver.Instant(0).Add(p.IdleGrace)
	keep := idle
	if p.Promote {
		keep = driver.MaxInstant
	}
	return rules{
		keep:    keep,
		stored:  idle.Add(p.Slack),
		most:    driver.Instant(0).Add(p.MaxLifetime),
		promote: p.Promote,
		step:    step,
	}
}

// after returns i + d, for a d that is not negative.
func after(i, d driver.Instant) driver.Instant {
	if sum := i + d; sum >= i {
		return sum
	}
	return driver.MaxInstant
}

func (r *rules) limit(created driver.Instant) driver.Instant { return after(created, r.most) }

func (r *rules) deadline(created, access driver.Instant) driver.Instant {
	return min(after(access, r.keep), r.limit(created))
}

func (r *rules) expiry(created, access driver.Instant) driver.Instant {
	if r.promote {
		return r.limit(created)
	}
	return r.written(created, access)
}

func (r *rules) written(created, access driver.Instant) driver.Instant {
	return min(after(access, r.stored), r.limit(created))
}

// alive reports whether a record with life l is readable at now.
func (r *rules) alive(l driver.Life, now driver.Instant) bool {
	return l.Alive(now) && (l.CreatedAt == 0 || r.limit(l.CreatedAt) > now)
}

// settled reports whether life l is alive at the time and needs no touch for an
// access then. It may say no of some that are both, on stores with coarse steps.
func (r *rules) settled(l driver.Life, at driver.Instant) bool {
	limit := l.CreatedAt + r.most // where that overflows, the answer is no
	return l.CreatedAt != 0 && at < l.ExpiresAt && l.ExpiresAt <= limit &&
		(l.ExpiresAt-at >= r.keep || l.ExpiresAt == limit)
}

// due reports whether an access at access finds life l in need of a touch.
func (r *rules) due(l driver.Life, access driver.Instant) bool {
	if l.CreatedAt == 0 || l.ExpiresAt < r.deadline(l.CreatedAt, access) {
		return true
	}
	// Past the cap by more than rounding: the policy was made tighter.
	limit := r.limit(l.CreatedAt)
	return l.ExpiresAt > limit && l.ExpiresAt > limit.RoundUp(r.step)
}

// touched is the life that a touch at access, found due, writes over l. created
// is the created_at with which a record that has none is adopted.
func (r *rules) touched(l driver.Life, access, created driver.Instant) driver.Life {
	if l.CreatedAt == 0 {
		return driver.Life{CreatedAt: created, ExpiresAt: r.expiry(created, access).RoundUp(r.step)}
	}
	to := r.expiry(l.CreatedAt, access)
	if limit := r.limit(l.CreatedAt); l.ExpiresAt > limit.RoundUp(r.step) {
		to = limit
	}
	return driver.Life{CreatedAt: l.CreatedAt, ExpiresAt: to.RoundUp(r.step)}
}

// fresh is the life of a record created at now: from the millisecond that has
// begun, with a promise that counts from the next.
func (r *rules) fresh(now time.Time) driver.Life {
	created := driver.Floor(now)
	return driver.Life{CreatedAt: created, ExpiresAt: r.written(created, driver.Ceil(now)).RoundUp(r.step)}
}

// rewritten is the life that a write of the value at now gives the live record l. The
// expiry moves forward only, and not past the cap, unless exactly is set, for a
// value that brings another policy: then it is that policy's.
func (r *rules) rewritten(l driver.Life, now time.Time, exactly bool) driver.Life {
	if l.CreatedAt == 0 {
		return r.fresh(now)
	}
	to := r.written(l.CreatedAt, driver.Ceil(now))
	if !exactly {
		to = min(max(to, l.ExpiresAt), r.limit(l.CreatedAt))
	}
	return driver.Life{CreatedAt: l.CreatedAt, ExpiresAt: to.RoundUp(r.step)}
}
