package model

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const ms = time.Millisecond

// value is what the model stores. Each write has its own id. kind chooses the policy, and from
// is the id of the value that an update started from.
type value struct {
	id, from int
	kind     int
}

const kinds = 2

// kindOf is the kind of all values under a key, if the key decides.
func kindOf(key string) int { return int(key[0]) % kinds }

// rule is the oracle's own arithmetic of a policy, by the words of the contract.
type rule struct{ slidingttl.Policy }

func (r rule) limit(c driver.Instant) driver.Instant {
	return c + driver.Instant(r.MaxLifetime/ms)
}

// deadline is what an access at t promises.
func (r rule) deadline(c, t driver.Instant) driver.Instant {
	if r.Promote {
		return r.limit(c)
	}
	return min(t+driver.Instant(r.IdleGrace/ms), r.limit(c))
}

// expiry is what a touch at t writes.
func (r rule) expiry(c, t driver.Instant) driver.Instant {
	if r.Promote {
		return r.limit(c)
	}
	return r.written(c, t)
}

// written is what a write of the value at t writes.
func (r rule) written(c, t driver.Instant) driver.Instant {
	return min(t+driver.Instant((r.IdleGrace+r.Slack)/ms), r.limit(c))
}

// most is the latest expiry that a touch at t may write: a budget may have grown the slack.
func (r rule) most(c, t driver.Instant) driver.Instant {
	r.Slack = max(r.Slack, r.MaxSlack)
	return r.expiry(c, t)
}

// dead reports whether a record is dead by the expiry or the cap.
func (r rule) dead(l driver.Life, now driver.Instant) bool {
	return l.ExpiresAt != 0 && l.ExpiresAt <= now || l.CreatedAt != 0 && r.limit(l.CreatedAt) <= now
}

// up rounds an expiry up to a multiple of the resolution.
func up(i driver.Instant, step time.Duration) driver.Instant {
	s := driver.Instant(step / ms)
	return (i + s - 1) / s * s
}

func floor(t time.Time) driver.Instant { return driver.Instant(t.UnixMilli()) }

func ceil(t time.Time) driver.Instant {
	return driver.Instant(t.Add(ms - time.Nanosecond).UnixMilli())
}

// table is the policies of a process from some time on.
type table struct {
	from time.Time
	of   [kinds]rule
}

// rules calls f with each rule that p had for a value of that kind between two times.
func (p *process) rules(kind int, from, to time.Time, f func(rule)) {
	for i, t := range p.tables {
		if t.from.After(to) {
			break
		}
		if i+1 < len(p.tables) && p.tables[i+1].from.Before(from) {
			continue
		}
		f(t.of[kind])
	}
}

// any reports whether ok holds for one of the rules that p had.
func (p *process) any(kind int, from, to time.Time, ok func(rule) bool) (found bool) {
	p.rules(kind, from, to, func(r rule) { found = found || ok(r) })
	return found
}
