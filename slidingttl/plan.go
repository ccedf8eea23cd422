package slidingttl

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// rules is a policy on a store of some resolution: what is due, and what a touch
// or a write of the value stores. Pure.
type rules struct {
	Policy
	step time.Duration
}

// due reports whether an access at access finds life l in need of a touch.
func (r rules) due(l driver.Life, access driver.Instant) bool {
	if l.CreatedAt == 0 || l.ExpiresAt < r.Deadline(l.CreatedAt, access) {
		return true
	}
	// Past the cap by more than rounding: the policy was made tighter.
	limit := r.Cap(l.CreatedAt)
	return l.ExpiresAt > limit && l.ExpiresAt > limit.RoundUp(r.step)
}

// touched is the life that a touch at access, found due, writes over l. created
// is the created_at with which a record that has none is adopted.
func (r rules) touched(l driver.Life, access, created driver.Instant) driver.Life {
	if l.CreatedAt == 0 {
		return driver.Life{CreatedAt: created, ExpiresAt: r.Expiry(created, access).RoundUp(r.step)}
	}
	to := r.Expiry(l.CreatedAt, access)
	if limit := r.Cap(l.CreatedAt); l.ExpiresAt > limit.RoundUp(r.step) {
		to = limit
	}
	return driver.Life{CreatedAt: l.CreatedAt, ExpiresAt: to.RoundUp(r.step)}
}

// fresh is the life of a record created at now: from the millisecond that has
// begun, with a promise that counts from the next.
func (r rules) fresh(now time.Time) driver.Life {
	created := driver.Floor(now)
	return driver.Life{CreatedAt: created, ExpiresAt: r.Written(created, driver.Ceil(now)).RoundUp(r.step)}
}

// rewritten is the life that a write of the value at now gives the live record l. The expiry moves forward only, and not past the cap, unless exactly is set,
// for a value that brings another policy: then it is that policy's.
func (r rules) rewritten(l driver.Life, now time.Time, exactly bool) driver.Life {
	if l.CreatedAt == 0 {
		return r.fresh(now)
	}
	to := r.Written(l.CreatedAt, driver.Ceil(now))
	if !exactly {
		to = min(max(to, l.ExpiresAt), r.Cap(l.CreatedAt))
	}
	return driver.Life{CreatedAt: l.CreatedAt, ExpiresAt: to.RoundUp(r.step)}
}

// keyTouch is the touch at access of a record that was not read, for those that
// the idle limit binds.
func (r rules) keyTouch(now, access driver.Instant) driver.KeyTouch {
	stored := access.Add(r.IdleGrace).Add(r.Slack)
	return driver.KeyTouch{
		Now:    now,
		Born:   stored.Add(-r.MaxLifetime),
		Due:    access.Add(r.IdleGrace),
		Expiry: stored.RoundUp(r.step),
	}
}
