package upkeep

import (
	"maps"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Calendar counts live records by when they die if they are not read. Its steps have the same
// length, and begin where UTC's minutes, hours or days do.
type Calendar struct {
	Seconds int64  `json:"seconds"` // the length of a step
	Steps   []Step `json:"steps"`   // in order; those without a death are left out
	Later   int64  `json:"later"`   // the records that die after 720 steps, or never
}

// Step counts the deaths in a step of a Calendar.
type Step struct {
	From   time.Time `json:"from"`
	Deaths int64     `json:"deaths"`
	Capped int64     `json:"capped"` // of Deaths, those at the cap, which no read moves
}

// mostSteps bounds what a calendar takes of memory and of a checkpoint.
const mostSteps = 720

// stepOf returns the length of a calendar's steps under policies: a record that follows one of them
// dies within a hundred steps, if a day is long enough for that.
func stepOf(policies ...slidingttl.Policy) driver.Instant {
	longest := time.Duration(0)
	for _, p := range policies {
		longest = max(longest, p.Longest())
	}
	step := day
	for _, d := range []time.Duration{6 * time.Hour, time.Hour, 10 * time.Minute, time.Minute} {
		if longest <= 100*d {
			step = d
		}
	}
	return driver.Instant(0).Add(step)
}

// deaths counts records by the step in which they die, of those since 1970: all, and those at
// their caps.
type deaths map[int64][2]int64

const laterStep = -1

// count adds a record of life l under t.
func (d deaths) count(l driver.Life, t *terms, step, now driver.Instant) {
	at := max(t.death(l), now)
	i := int64(at / step)
	if i-int64(now/step) >= mostSteps {
		i = laterStep
	}
	n := d[i]
	n[0]++
	if at >= t.limit(l.CreatedAt) {
		n[1]++
	}
	d[i] = n
}

// plus returns the sum of d and other. It changes d, unless that is nil.
func (d deaths) plus(other deaths) deaths {
	for i, n := range other {
		if d == nil {
			d = make(deaths)
		}
		d[i] = [2]int64{d[i][0] + n[0], d[i][1] + n[1]}
	}
	return d
}

func (d deaths) calendar(step driver.Instant) Calendar {
	c := Calendar{Seconds: int64(step / driver.Instant(0).Add(time.Second)), Later: d[laterStep][0]}
	for _, i := range slices.Sorted(maps.Keys(d)) {
		if i != laterStep {
			c.Steps = append(c.Steps, Step{(driver.Instant(i) * step).Time(), d[i][0], d[i][1]})
		}
	}
	return c
}
