// Package rules is what follows from a policy on a store of some resolution: how long a record lives,
// when a touch is due and what a write stores. It reads no clock and calls no store.
package rules

import (
	"math"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

// Rules is a policy on a store of some resolution: when a touch is due, what a write stores.
//
// It does not change, and is computed beforehand, for every read needs it.
type Rules struct {
	keep    driver.Instant // what an access must leave of a life: IdleGrace, or with Promote all there is
	stored  driver.Instant // IdleGrace + Slack: what a touch leaves of it
	reach   driver.Instant // IdleGrace + the most that Slack may grow to, or with Promote all there is
	most    driver.Instant // MaxLifetime
	skew    driver.Instant // how far the clocks of two processes may be apart
	early   driver.Instant // by how much before it is due a touch may come, so that processes take turns
	near    driver.Instant
	promote bool
	exact   bool
	step    time.Duration // the store's resolution
	Policy  policy.Policy
}

// New returns the rules of p on a store of resolution step.
//
// The clocks of its processes are at most skew apart. takeTurns: several processes share the
// records, and each draws a share of the slack by which it touches early; see [Rules.DueFrom].
func New(p policy.Policy, step, skew time.Duration, takeTurns bool) *Rules {
	idle := driver.Instant(0).Add(p.IdleGrace)
	r := &Rules{
		Policy:  p,
		keep:    idle,
		stored:  idle.Add(p.Slack),
		reach:   idle.Add(max(p.Slack, p.MaxSlack)),
		most:    driver.Instant(0).Add(p.MaxLifetime),
		skew:    driver.Instant(0).Add(skew),
		promote: p.Promote,
		step:    step,
	}
	if p.Promote {
		r.keep, r.reach = driver.MaxInstant, driver.MaxInstant
	} else if takeTurns {
		r.early = (r.stored - r.keep) / 16
	}
	r.near = min(r.keep/2, mostNear)
	r.exact = r.stored == r.keep && step == time.Millisecond
	return r
}

// mostNear bounds near. A process that is stopped for longer may read by bounds of a coarse
// clock that have passed when it goes on, and take a dead record for a live one.
const mostNear = driver.Instant(time.Minute / time.Millisecond)

// Cap is the instant from which a record created at created is never readable.
func (r *Rules) Cap(created driver.Instant) driver.Instant { return created.Plus(r.most) }

// Deadline is when an access at access lets a record created at created die.
func (r *Rules) Deadline(created, access driver.Instant) driver.Instant {
	if r.promote {
		return r.Cap(created)
	}
	return min(access.Plus(r.keep), r.Cap(created))
}

func (r *Rules) expiry(created, access driver.Instant) driver.Instant {
	if r.promote {
		return r.Cap(created)
	}
	return r.written(created, access)
}

// written is what a write of the value gives: with Promote it does not count as a read.
func (r *Rules) written(created, access driver.Instant) driver.Instant {
	return min(access.Plus(r.stored), r.Cap(created))
}

// Promise is by how much life l falls short of what an access at access was promised.
//
// It is zero where that cannot be told.
func (r *Rules) Promise(l driver.Life, access driver.Instant) time.Duration {
	if l.ExpiresAt == 0 || r.promote {
		return 0
	}
	return max(0, r.Deadline(l.CreatedAt, access).Sub(l.ExpiresAt))
}

// Alive reports whether a record with life l is readable at now.
func (r *Rules) Alive(l driver.Life, now driver.Instant) bool {
	return l.Alive(now) && (l.CreatedAt == 0 || r.Cap(l.CreatedAt) > now)
}

// AliveNear is Alive at now or so far after it as a coarse clock may be behind.
func (r *Rules) AliveNear(l driver.Life, now driver.Instant) bool {
	return r.Alive(l, now.Plus(r.near))
}

// DiedOfAge reports whether life l, which is over, ended at its cap and not of idleness.
//
// The earlier of its expiry and its cap decides, and not the time of the question.
func (r *Rules) DiedOfAge(l driver.Life) bool {
	return l.CreatedAt != 0 && (l.ExpiresAt == 0 || l.ExpiresAt >= r.Cap(l.CreatedAt))
}

// NeedsNoTouch reports whether life l is alive and needs no touch for an access at a time from earliest
// to latest. It may say no of some that are both.
func (r *Rules) NeedsNoTouch(l driver.Life, earliest, latest driver.Instant) bool {
	limit := l.CreatedAt + r.most // where that overflows, the answer is no
	left := l.ExpiresAt - latest
	return l.CreatedAt != 0 && left > 0 && l.ExpiresAt <= limit && l.ExpiresAt-earliest <= r.reach &&
		(left >= r.keep+r.early || l.ExpiresAt == limit)
}

// Exact reports whether nearly every access needs a touch, and Slid says what it writes.
func (r *Rules) Exact() bool { return r.exact }

// Slid is the expiry that an access at at gives life l under exact rules. ok says that l is alive and
// not beyond them, so that the expiry moves forward or, where it is that already, nowhere.
func (r *Rules) Slid(l driver.Life, at driver.Instant) (to driver.Instant, ok bool) {
	to = min(at+r.stored, l.CreatedAt+r.most) // where that overflows, the answer is no
	return to, l.CreatedAt != 0 && at < l.ExpiresAt && l.ExpiresAt <= to
}

// Near is how close to death only the exact clock is believed.
func (r *Rules) Near() driver.Instant { return r.near }

// Due reports whether life l falls short of what an access at access promises.
func (r *Rules) Due(l driver.Life, access driver.Instant) bool {
	return l.CreatedAt == 0 || l.ExpiresAt < r.Deadline(l.CreatedAt, access)
}

// DueFrom is the instant for which Due tells whether an access at at needs to touch life l.
//
// It is later than at by a share of the slack, so that of many processes that read one key
// together one touches it, and the others see that in time. draw returns a number from 0 to 1,
// drawn again with each expiry. The shares are truncated-exponential, most small and few large:
// then the largest of many lies apart from the next by more than a touch takes.
func (r *Rules) DueFrom(l driver.Life, at driver.Instant, draw func() float64) driver.Instant {
	if r.early == 0 || l.CreatedAt == 0 || r.Due(l, at) || !r.Due(l, at.Plus(r.early)) {
		return at
	}
	w := float64(r.stored-r.keep) / 16
	return at.Plus(driver.Instant(-w / 6 * math.Log(1-draw()*(1-math.Exp(-6)))))
}

// Touched is the life that a touch at access, found due, writes over l.
//
// created is the created_at with which a record that has none is adopted, grown what the
// slack has grown by.
func (r *Rules) Touched(l driver.Life, access, created, grown driver.Instant) driver.Life {
	if l.CreatedAt != 0 {
		created = l.CreatedAt
	}
	return r.life(created, r.expiry(created, access.Plus(grown)))
}

// Saved is Touched for a record whose value was just written by other means.
//
// With Promote that is no read.
func (r *Rules) Saved(l driver.Life, access, created driver.Instant) driver.Life {
	if l.CreatedAt != 0 {
		created = l.CreatedAt
	}
	return r.life(created, r.written(created, access))
}

// Grown is what the slack grows by for a share of what it may.
func (r *Rules) Grown(share float64) driver.Instant {
	if r.promote || !(share > 0) {
		return 0
	}
	return driver.Instant(min(1, share) * float64(r.reach-r.stored))
}

// Lowered is the life that the live record l is lowered to at now, and whether it is
// lowered. It is if its expiry lies so far beyond the policy that the policy was made
// tighter since.
func (r *Rules) Lowered(l driver.Life, now driver.Instant) (driver.Life, bool) {
	if l.CreatedAt == 0 || l.ExpiresAt == 0 {
		return l, false
	}
	most := min(now.Plus(r.reach), r.Cap(l.CreatedAt))
	if l.ExpiresAt <= most.Plus(r.skew).Plus(driver.Instant(0).Add(r.step)) {
		return l, false
	}
	return r.life(l.CreatedAt, r.expiry(l.CreatedAt, now).Plus(r.skew)), true
}

// Lasts reports whether no process under r has lowered l's expiry since it was stored at at, by a clock that may be
// ahead of others.
func (r *Rules) Lasts(l driver.Life, at driver.Instant) bool {
	_, beyond := r.Lowered(l, at-r.skew)
	return !beyond
}

// Window is how long an expiry that was lowered is not lowered again.
func (r *Rules) Window() driver.Instant { return r.stored / 8 }

// New is the life of a record created at now, in the millisecond that has begun. Its promise
// counts from the next.
func (r *Rules) New(now time.Time) driver.Life {
	created := Birth(now)
	return r.life(created, r.written(created, driver.Ceil(now)))
}

// Rewritten is the life that a write of the value at now gives the live record l. The expiry
// moves forward only.
func (r *Rules) Rewritten(l driver.Life, now time.Time) driver.Life {
	if l.CreatedAt == 0 {
		return r.New(now)
	}
	if to := r.written(l.CreatedAt, driver.Ceil(now)); l.ExpiresAt == 0 || l.ExpiresAt < to {
		return r.life(l.CreatedAt, to)
	}
	return l
}

// Overwrite is what Rewritten does, for a driver to carry out.
func (r *Rules) Overwrite(now time.Time) driver.Access {
	return driver.Access{At: driver.Ceil(now), Keep: r.stored, Stored: r.stored, Most: r.most, Step: r.step}
}

// Access is an access at at, due from by on, for a driver to judge.
func (r *Rules) Access(at, dueFrom driver.Instant) driver.Access {
	return driver.Access{At: at, Keep: r.keep.Plus(dueFrom - at), Stored: r.stored, Most: r.most, Promote: r.promote, Step: r.step}
}

// Retired is the expiry of a record whose life is ended at now: past for every process.
func (r *Rules) Retired(now driver.Instant) driver.Instant {
	step := driver.Instant(r.step / time.Millisecond)
	at := now - r.skew
	if at -= ((at % step) + step) % step; at == 0 { // zero means none
		at = -step
	}
	return at
}

// life is one of created and expiry as a store takes it. Zero means none in both places,
// so no instant is ever that one.
func (r *Rules) life(created, expiry driver.Instant) driver.Life {
	expiry = expiry.RoundUp(r.step)
	if expiry == 0 {
		expiry = driver.Instant(0).Add(r.step)
	}
	return driver.Life{CreatedAt: created, ExpiresAt: expiry}
}

// Birth is the created_at of a record that comes to be at now.
func Birth(now time.Time) driver.Instant {
	if created := driver.Floor(now); created != 0 {
		return created
	}
	return 1
}
