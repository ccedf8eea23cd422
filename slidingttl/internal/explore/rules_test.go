package explore

import (
	"fmt"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// promises are what a run must keep, by the name that a violation carries.
var promises = map[string]string{
	"due":      "2: a touch is written only where one is due, and writes what the policy says",
	"readable": "3: a record that is alive throughout a call is found by it",
	"kept":     "3: what an access has found lives until its deadline, unless a failure is counted",
	"alive":    "4: a read returns a value that was stored and alive at some moment of it",
	"entry":    "8: the life and version that a read returns are ones that the value had",
	"stored":   "8: a write that succeeds has stored its value",
	"fresh":    "5: a new life begins now",
	"vouches":  "5: Keep and Touch do not vouch for what this store has deleted or found gone before",
	"adopts":   "5: no record is given the created_at of one that is dead",
	"created":  "6: a live record keeps its created_at, and a write planned for one record lands on no other",
	"forward":  "7: an expiry moves forward, or down where it lies beyond the policy",
	"lowers":   "7: one process lowers an expiry at most once per (I + S)/8",
	"fails":    "8: a call fails only by a fault of its own, and a read does not fail because a touch did",
	"gone":     "8: a read returns not found where its own touch found so before the read returns",
	"single":   "9: a process has one touch of a key in flight",
	"closed":   "11: after Close calls fail with ErrClosed, and only then",
	"whole":    "11: Close waits for a call in all its parts",
	"drain":    "11: Close makes the touches that are due, and nothing is sent after it",
	"counted":  "11: each due access ends as one of the counters",
	"told":     "13: a write that may have landed is never reported as refused",
	"retired":  "14: a Retire that succeeds has ended the life",
	"ends":     "every call returns",
	"prompt":   "11: Close returns when its context ends, whatever hooks and drivers do",
	"given up": "11: Close says how many touches it gave up",
	"waits":    "8: a read waits for its touch at most TouchWait",
	"left":     "6.2: a caller that has left starts no touch",
	"rests":    "6.2: a touch that failed rests",
	"revived":  "14: a life that was retired is not revived",
}

// violation is a promise broken.
type violation struct{ rule, text string }

func (v violation) String() string {
	return fmt.Sprintf("%s (promise %s): %s", v.rule, promises[v.rule], v.text)
}

// violated records a broken promise, unless the program has not begun.
func (w *world) violated(rule, format string, args ...any) {
	if promises[rule] == "" {
		panic("no promise " + rule)
	}
	if w.direct && w.step == 0 {
		return
	}
	w.broken = append(w.broken, violation{rule, fmt.Sprintf(format, args...)})
	w.note("VIOLATED %v", w.broken[len(w.broken)-1])
}

// The arithmetic of the contract, in milliseconds.

func millis(d time.Duration) driver.Instant { return driver.Instant(d / time.Millisecond) }

func limit(p slidingttl.Policy, created driver.Instant) driver.Instant {
	return created + millis(p.MaxLifetime)
}

func deadline(p slidingttl.Policy, created, access driver.Instant) driver.Instant {
	return min(access+millis(p.IdleGrace), limit(p, created))
}

func (w *world) expiry(p slidingttl.Policy, created, access driver.Instant) driver.Instant {
	return min(access+millis(p.IdleGrace+p.Slack), limit(p, created)).RoundUp(w.resolution())
}

// furthest is the expiry with all the slack that a budget may add.
func (w *world) furthest(p slidingttl.Policy, created, access driver.Instant) driver.Instant {
	return min(access+millis(p.IdleGrace+max(p.Slack, p.MaxSlack)), limit(p, created)).RoundUp(w.resolution())
}

// writable reports whether a touch at access may write expiry e.
func (w *world) writable(p slidingttl.Policy, created, access, e driver.Instant) bool {
	return e >= w.expiry(p, created, access) && e <= w.furthest(p, created, access)
}

// skewed is the default of MaxSkew, which all programs have.
const skewed = driver.Instant(time.Minute / time.Millisecond)

// lowered reports whether a write at now may lower the expiry of l to e.
func (w *world) lowered(p slidingttl.Policy, l driver.Life, now, e driver.Instant) bool {
	return l.ExpiresAt > w.furthest(p, l.CreatedAt, now)+skewed+millis(w.resolution()) && e == w.expiry(p, l.CreatedAt, now)+skewed
}

func dead(p slidingttl.Policy, l driver.Life, now driver.Instant) bool {
	return !l.Alive(now) || l.CreatedAt != 0 && limit(p, l.CreatedAt) <= now
}

// resolution is the backend's.
func (w *world) resolution() time.Duration {
	if strings.Contains(w.driver, "seconds") {
		return time.Second
	}
	return time.Millisecond
}

// clock is what the process's clock showed then, rounded down.
func (p *process) clock(then time.Time) driver.Instant { return driver.Floor(then.Add(p.skew)) }

// ever reports whether ok holds for a policy that the process had in one of steps from..to.
func (p *process) ever(from, to int, ok func(slidingttl.Policy) bool) bool {
	for i, d := range p.policies {
		if d.from <= to && (i+1 == len(p.policies) || p.policies[i+1].from >= from) && ok(d.policy) {
			return true
		}
	}
	return false
}

// planned reports whether ok holds for a policy and a moment, rounded down and up, by which
// process p may have planned the write of r that takes effect now: those of r until it was
// sent, or where it may have waited in a queue and stand for earlier calls, of any.
func (w *world) planned(p *process, r *run, ok func(rule slidingttl.Policy, floor, at driver.Instant) bool) bool {
	from, since, to := 0, w.began[0], w.step
	if r != nil && !w.mode.queues() {
		from, since = r.from, r.at
	}
	if w.taking != nil {
		to = w.taking.sent
	}
	w.moment()
	for _, m := range w.moments {
		local := m.Add(p.skew)
		if !m.Before(since) && p.ever(from, to, func(rule slidingttl.Policy) bool { return ok(rule, driver.Floor(local), driver.Ceil(local)) }) {
			return true
		}
	}
	return false
}
