package touches

import "time"

// State is the state of a store's touches.
type State struct {
	Late       bool // touches take longer than Wait, so reads do not wait for them
	Failing    bool // the store refuses touches: they wait, and few are tried
	OverBudget bool // touches exceed the budget, because some would come too late otherwise
}

// pressure distinguishes late from failing. Late touches end a read's wait, but are not held back.
type pressure struct {
	State
	lates      int           // consecutive late touches; negative: consecutive ones in time
	fails      int           // failed touches during which none landed
	landings   int           // touches landed so far
	takes      time.Duration // how long those that land take, smoothed
	back       int           // landings when a touch that had failed was the first to land again
	wakes      int           // how many of the next landings wake one that rests
	since      time.Time     // when Failing began
	trouble    time.Time     // last late or failed touch
	tried      time.Time     // when the last touch began by Touches.tryWait
	another    bool          // the last such touch was not the one nearest to death
	nears      int           // watched touches under way: those nearest to death that began as a try, or after one had failed
	nearFailed time.Time     // when one of these last failed; zero: one has landed since, or the store has recovered
}

const (
	run       = 5                // consecutive touches that change the state
	calmAfter = 30 * time.Second // without trouble and without waiting touches
	mostNear  = time.Minute      // how long a failed try says something of the touches nearest to death
)

func (p *pressure) any() bool { return p.Late || p.Failing }

// wasLate notes a late touch, and returns Late.
func (p *pressure) wasLate() bool {
	p.trouble, p.lates = time.Now(), max(0, p.lates)+1
	p.Late = p.Late || p.lates >= run
	return p.Late
}

// landed notes a touch that landed after it took so long, and reports whether the store has recovered.
func (p *pressure) landed(late bool, took time.Duration) (recovered bool) {
	p.takes += (took - p.takes) / 8
	recovered = p.Failing && time.Since(p.since) >= shortestRest
	p.fails, p.Failing = 0, false
	p.landings++
	if recovered {
		p.nearFailed = time.Time{}
	}
	if !late {
		p.lates = min(0, p.lates) - 1
		p.Late = p.Late && p.lates > -run && !recovered
	}
	return recovered
}

// failed notes a failed touch that was sent after landings touches had landed. It counts only if
// none has landed since.
func (p *pressure) failed(landings int) {
	p.trouble = time.Now()
	if landings != p.landings {
		return
	}
	if p.fails++; p.fails >= run && !p.Failing {
		p.Failing, p.since, p.tried, p.another = true, p.trouble, p.trouble, true
	}
}

// calm ends the state after a time without trouble, if nothing is pending and no touch ended it.
func (t *Touches) calm() {
	p := &t.pressure
	if p.any() && t.pending == 0 && time.Since(p.trouble) >= calmAfter {
		p.Late, p.Failing, p.lates, p.fails = false, false, 0, 0
		t.limits.grow(mostInFlight)
	}
}

// goesToAnother reports whether what begins now is not the touch nearest to death. A try is of the kind of the last
// one if that landed, else of the other. While the touches nearest to death seem to be of a shard that hangs or refuses
// them, and others are late, a share of the workers shows whether the next ones are too.
func (p *pressure) goesToAnother(try bool, share int) bool {
	if try {
		return p.another == p.tried.IsZero()
	}
	return p.Late && p.another && p.nears > share
}

// nearRefused reports whether the last touch nearest to death that was watched failed, a short time ago.
func (p *pressure) nearRefused() bool { return time.Since(p.nearFailed) < mostNear }

// nearEnded notes how a try of the touch nearest to death ended.
func (p *pressure) nearEnded(landed bool) {
	if p.nears--; landed {
		p.nearFailed = time.Time{}
	} else {
		p.nearFailed = time.Now()
	}
}
