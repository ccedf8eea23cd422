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
	stored  driver.Instant // IdleGrace + Slack: what a touch leaves of it
	reach   driver.Instant // IdleGrace + the most that Slack may grow to, or with Promote all there is
	most    driver.Instant // MaxLifetime
	skew    driver.Instant // how far the clocks of two processes may be apart
	share   driver.Instant // by how much earlier than due a touch may come, so that processes take turns
	window  driver.Instant // how long an expiry that was lowered is not lowered again
	near    driver.Instant // how close to death no clock but the exact one is believed
	promote bool
	step    time.Duration // the store's resolution
}

// newRules returns the rules of p on a store of resolution step whose processes'
// clocks are at most skew apart.
func newRules(p Policy, step, skew time.Duration) rules {
	idle := driver.Instant(0).Add(p.IdleGrace)
	r := rules{
		keep:    idle,
		stored:  idle.Add(p.Slack),
		reach:   idle.Add(max(p.Slack, p.MaxSlack)),
		most:    driver.Instant(0).Add(p.MaxLifetime),
		skew:    driver.Instant(0).Add(skew),
		promote: p.Promote,
		step:    step,
	}
	r.window = r.stored / 8
	if p.Promote {
		r.keep, r.reach = driver.MaxInstant, driver.MaxInstant
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

func (r *rules) limit(created driver.Instant) driver.Instant { return after(created, r.most) }

func (r *rules) deadline(created, access driver.Instant) driver.Instant {
	if r.promote {
		return r.limit(created)
	}
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

// cause is what a record with life l, which is not alive at now, died of.
func (r *rules) cause(l driver.Life, now driver.Instant) ReadOutcome {
	limit := r.limit(l.CreatedAt)
	if l.CreatedAt != 0 && (l.ExpiresAt == 0 || l.ExpiresAt >= limit || limit <= now) {
		return ReadDiedOfAge
	}
	return ReadDiedIdle
}

// settled reports whether life l is alive at the time and needs no touch for an
// access then. It may say no of some that are both.
func (r *rules) settled(l driver.Life, at driver.Instant) bool {
	limit := l.CreatedAt + r.most // where that overflows, the answer is no
	left := l.ExpiresAt - at
	return l.CreatedAt != 0 && left > 0 && l.ExpiresAt <= limit && left <= r.reach &&
		(left >= r.keep+r.share || l.ExpiresAt == limit)
}

// due reports whether life l falls short of what an access at access promises.
func (r *rules) due(l driver.Life, access driver.Instant) bool {
	return l.CreatedAt == 0 || l.ExpiresAt < r.deadline(l.CreatedAt, access)
}

// touched is the life that a touch at access, found due, writes over l. created
// is the created_at with which a record that has none is adopted, grown what the
// slack has grown by.
func (r *rules) touched(l driver.Life, access, created, grown driver.Instant) driver.Life {
	if l.CreatedAt != 0 {
		created = l.CreatedAt
	}
	return r.life(created, r.expiry(created, after(access, grown)))
}

// lowered is the life that the live record l is brought down to at now, and
// whether it lies that far beyond the policy, which then was made tighter.
func (r *rules) lowered(l driver.Life, now driver.Instant) (driver.Life, bool) {
	if l.CreatedAt == 0 || l.ExpiresAt == 0 {
		return l, false
	}
	limit := r.limit(l.CreatedAt)
	most := min(after(now, r.reach), limit)
	if l.ExpiresAt <= after(after(most, r.skew), driver.Instant(0).Add(r.step)) {
		return l, false
	}
	return r.life(l.CreatedAt, after(r.expiry(l.CreatedAt, now), r.skew)), true
}

// wiped reports whether life l at now falls short of before, the life that its record
// had until a save wiped it, zero if unknown: others may have judged by that. One beyond
// the policy does not count.
func (r *rules) wiped(l, before driver.Life, now driver.Instant) bool {
	if l.ExpiresAt >= before.ExpiresAt || l.CreatedAt != 0 && l.CreatedAt != before.CreatedAt {
		return false
	}
	_, beyond := r.lowered(before, now)
	return !beyond && before.CreatedAt != 0
}

// fresh is the life of a record created at now: from the millisecond that has
// begun, with a promise that counts from the next.
func (r *rules) fresh(now time.Time) driver.Life {
	created := birth(now)
	return r.life(created, r.written(created, driver.Ceil(now)))
}

// rewritten is the life that a write of the value at now gives the live record l.
// The expiry moves forward only.
func (r *rules) rewritten(l driver.Life, now time.Time) driver.Life {
	if l.CreatedAt == 0 {
		return r.fresh(now)
	}
	if to := r.written(l.CreatedAt, driver.Ceil(now)); l.ExpiresAt == 0 || l.ExpiresAt < to {
		return r.life(l.CreatedAt, to)
	}
	return l
}

// overwrite is what rewritten does, as an access that a driver carries out.
func (r *rules) overwrite(now time.Time) driver.Access {
	return driver.Access{At: driver.Ceil(now), Keep: r.stored, Stored: r.stored, Most: r.most, Step: r.step}
}

// life is one of created and expiry as a store takes it. Zero means none in both
// places, so no instant is ever that one.
func (r *rules) life(created, expiry driver.Instant) driver.Life {
	expiry = expiry.RoundUp(r.step)
	if expiry == 0 {
		expiry = driver.Instant(0).Add(r.step)
	}
	return driver.Life{CreatedAt: created, ExpiresAt: expiry}
}

// birth is the created_at of a record that comes to be at now.
func birth(now time.Time) driver.Instant {
	if created := driver.Floor(now); created != 0 {
		return created
	}
	return 1
}
