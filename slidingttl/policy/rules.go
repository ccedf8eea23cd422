package policy

import (
	"math"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Rules is a policy on a store of some resolution: what a record is promised, when a
// touch is due, and what a write stores. It is for every read, so it is spared
// divisions. It does not change.
type Rules struct {
	keep    driver.Instant // what an access must leave of a life: IdleGrace, or with Promote all there is
	stored  driver.Instant // IdleGrace + Slack: what a touch leaves of it
	reach   driver.Instant // IdleGrace + the most that Slack may grow to, or with Promote all there is
	most    driver.Instant // MaxLifetime
	skew    driver.Instant // how far the clocks of two processes may be apart
	early   driver.Instant // by how much before it is due a touch may come, so that processes take turns
	near    driver.Instant
	promote bool
	step    time.Duration // the store's resolution
	Policy  Policy
}

// NewRules returns the rules of p on a store of resolution step whose processes' clocks
// are at most skew apart. takeTurns: several processes share the records, and each draws
// a share of the slack by which it touches early; see [Rules.DueBy].
func NewRules(p Policy, step, skew time.Duration, takeTurns bool) *Rules {
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
	return r
}

// mostNear is how long a process may be stopped and, when it goes on, a coarse clock's
// bounds have passed, without a read taking a dead record for a live one.
const mostNear = driver.Instant(time.Minute / time.Millisecond)

// after returns i + d, for a d that is not negative.
func after(i, d driver.Instant) driver.Instant {
	if sum := i + d; sum >= i {
		return sum
	}
	return driver.MaxInstant
}

// Cap is the instant from which a record created at created is never readable.
func (r *Rules) Cap(created driver.Instant) driver.Instant { return after(created, r.most) }

func (r *Rules) deadline(created, access driver.Instant) driver.Instant {
	if r.promote {
		return r.Cap(created)
	}
	return min(after(access, r.keep), r.Cap(created))
}

func (r *Rules) expiry(created, access driver.Instant) driver.Instant {
	if r.promote {
		return r.Cap(created)
	}
	return r.written(created, access)
}

// written is what a write of the value gives: with Promote it does not count as a read.
func (r *Rules) written(created, access driver.Instant) driver.Instant {
	return min(after(access, r.stored), r.Cap(created))
}

// Promise is how much of life l an access at access was promised beyond it, zero where
// that cannot be told.
func (r *Rules) Promise(l driver.Life, access driver.Instant) time.Duration {
	if l.ExpiresAt == 0 || r.promote {
		return 0
	}
	return max(0, r.deadline(l.CreatedAt, access).Sub(l.ExpiresAt))
}

// Alive reports whether a record with life l is readable at now.
func (r *Rules) Alive(l driver.Life, now driver.Instant) bool {
	return l.Alive(now) && (l.CreatedAt == 0 || r.Cap(l.CreatedAt) > now)
}

// AliveNear is Alive at now or so far after it as a coarse clock may be behind.
func (r *Rules) AliveNear(l driver.Life, now driver.Instant) bool {
	return r.Alive(l, after(now, r.near))
}

// DiedOfAge reports whether life l, which is over, ended at its cap and not of idleness:
// whichever of its expiry and its cap came first. That does not depend on who asks when.
func (r *Rules) DiedOfAge(l driver.Life) bool {
	return l.CreatedAt != 0 && (l.ExpiresAt == 0 || l.ExpiresAt >= r.Cap(l.CreatedAt))
}

// Settled reports whether life l is alive at at and needs no touch for an access then.
// It may say no of some that are both.
func (r *Rules) Settled(l driver.Life, at driver.Instant) bool {
	limit := l.CreatedAt + r.most // where that overflows, the answer is no
	left := l.ExpiresAt - at
	return l.CreatedAt != 0 && left > 0 && l.ExpiresAt <= limit && left <= r.reach &&
		(left >= r.keep+r.early || l.ExpiresAt == limit)
}

// Near is how close to death only the exact clock is believed.
func (r *Rules) Near() driver.Instant { return r.near }

// Due reports whether life l falls short of what an access at access promises.
func (r *Rules) Due(l driver.Life, access driver.Instant) bool {
	return l.CreatedAt == 0 || l.ExpiresAt < r.deadline(l.CreatedAt, access)
}

// DueBy is the instant for Due by which an access at at judges whether life l needs a
// touch: later than at by a share of the slack, so that of many processes that read one
// key together one touches it, and the others see that in time.
//
// draw returns a number from 0 to 1, drawn anew with each expiry. Most shares are small
// and few are large, as of a truncated exponential: then the largest of many lies apart
// from the next by more than a touch takes. Were they uniform it would be a matter of luck.
func (r *Rules) DueBy(l driver.Life, at driver.Instant, draw func() float64) driver.Instant {
	if r.early == 0 || l.CreatedAt == 0 || r.Due(l, at) || !r.Due(l, after(at, r.early)) {
		return at
	}
	w := float64(r.stored-r.keep) / 16
	return after(at, driver.Instant(-w/6*math.Log(1-draw()*(1-math.Exp(-6)))))
}

// Touched is the life that a touch at access, found due, writes over l. created is the
// created_at with which a record that has none is adopted, grown what the slack has
// grown by.
func (r *Rules) Touched(l driver.Life, access, created, grown driver.Instant) driver.Life {
	if l.CreatedAt != 0 {
		created = l.CreatedAt
	}
	return r.life(created, r.expiry(created, after(access, grown)))
}

// Grown is what the slack grows by for a share of what it may.
func (r *Rules) Grown(share float64) driver.Instant {
	if r.promote || !(share > 0) {
		return 0
	}
	return driver.Instant(min(1, share) * float64(r.reach-r.stored))
}

// Lowered is the life that the live record l is brought down to at now, and whether it
// lies so far beyond the policy that this was made tighter since.
func (r *Rules) Lowered(l driver.Life, now driver.Instant) (driver.Life, bool) {
	if l.CreatedAt == 0 || l.ExpiresAt == 0 {
		return l, false
	}
	most := min(after(now, r.reach), r.Cap(l.CreatedAt))
	if l.ExpiresAt <= after(after(most, r.skew), driver.Instant(0).Add(r.step)) {
		return l, false
	}
	return r.life(l.CreatedAt, after(r.expiry(l.CreatedAt, now), r.skew)), true
}

// Window is how long an expiry that was lowered is not lowered again.
func (r *Rules) Window() driver.Instant { return r.stored / 8 }

// Restores reports whether life l falls short at now of before, the life that its record
// had until a save wiped it, zero if unknown: others may have judged by that. One beyond
// the policy does not count.
func (r *Rules) Restores(l, before driver.Life, now driver.Instant) bool {
	if l.ExpiresAt >= before.ExpiresAt || l.CreatedAt != 0 && l.CreatedAt != before.CreatedAt {
		return false
	}
	_, beyond := r.Lowered(before, now)
	return !beyond && before.CreatedAt != 0
}

// New is the life of a record created at now: from the millisecond that has begun, with
// a promise that counts from the next.
func (r *Rules) New(now time.Time) driver.Life {
	created := Birth(now)
	return r.life(created, r.written(created, driver.Ceil(now)))
}

// Rewritten is the life that a write of the value at now gives the live record l. The
// expiry moves forward only.
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
func (r *Rules) Access(at, by driver.Instant) driver.Access {
	return driver.Access{At: at, Keep: after(r.keep, by-at), Stored: r.stored, Most: r.most, Promote: r.promote, Step: r.step}
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
