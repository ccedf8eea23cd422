package survey

import (
	"math"
	"time"

	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Calendar counts live records by when they die if they are not read. Its steps have one length: a
// minute, ten minutes, an hour, six hours, or a day. A record that follows the policy dies within a
// hundred steps, if a day is long enough for that.
type Calendar struct {
	From    time.Time `json:"from"`    // the beginning of the first step
	Seconds int64     `json:"seconds"` // the length of a step
	Steps   []Step    `json:"steps"`   // until the last death, at most 120
	Later   int64     `json:"later"`   // records that die after that, or never
}

// Step counts the deaths in a step of a Calendar.
type Step struct {
	Deaths int64 `json:"deaths"`
	Capped int64 `json:"capped"` // of Deaths, those at the cap, which no read moves
}

const mostSteps = 120

// stepOf returns the length of a calendar's steps under policies.
func stepOf(policies ...slidingttl.Policy) driver.Instant {
	step := time.Minute
	for _, p := range policies {
		for _, longer := range []time.Duration{10 * time.Minute, time.Hour, 6 * time.Hour, day} {
			if p.Longest() > 100*step {
				step = max(step, longer)
			}
		}
	}
	return driver.Instant(0).Add(step)
}

// deaths counts records by the step in which they die, of those since 1970.
type deaths map[int64]Step

// count adds a record of life l under t.
func (d deaths) count(l driver.Life, t *verdict.Terms, step, now driver.Instant) {
	at := max(t.Death(l), now)
	i := int64(at / step)
	if i >= int64(now/step)+mostSteps {
		i = math.MaxInt64
	}
	s := d[i]
	s.Deaths++
	if at >= t.Limit(l.CreatedAt) {
		s.Capped++
	}
	d[i] = s
}

// plus returns the sum of d and other. It changes d, unless that is nil.
func (d deaths) plus(other deaths) deaths {
	if d == nil {
		d = make(deaths)
	}
	for i, s := range other {
		d[i] = Step{d[i].Deaths + s.Deaths, d[i].Capped + s.Capped}
	}
	return d
}

// calendar returns the deaths from now on. What was to die in the time of the walk is in the first step.
func (d deaths) calendar(step, now driver.Instant) Calendar {
	c := Calendar{From: (now - now%step).Time(), Seconds: int64(step) / 1000}
	for i, s := range d {
		at := max(i-int64(now/step), 0)
		if at >= mostSteps {
			c.Later += s.Deaths
			continue
		}
		c.Steps = append(c.Steps, make([]Step, max(0, int(at)+1-len(c.Steps)))...)
		c.Steps[at].Deaths += s.Deaths
		c.Steps[at].Capped += s.Capped
	}
	return c
}
