package model

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// draw draws the conditions of a history.
func draw(seed uint64) *world {
	w := &world{
		seed: seed, dice: dice(seed),
		truth: map[string]timeline{}, byVersion: map[driver.Version]value{},
		drawn: map[string]uint64{}, log: map[string][]entry{},
	}
	d := &w.dice
	d.next()
	w.store = store(d.n(int(stores)))
	w.step = pick(d, ms, time.Second)
	if w.store == local {
		w.step = ms
	}
	w.bumps = d.oneIn(2)
	w.trip = pick(d, ms, 10*ms, 20*ms)
	w.slow = pick(d, 0, 50*ms, 500*ms)
	w.deletes = pick(d, -1, 0, 5*time.Second)
	if w.store == local {
		w.deletes, w.bumps = -1, false
	}
	w.faults = pick(d, 0, 0, 20, 100)
	w.lost = pick(d, 0, 0, 20)
	if w.store == stale {
		w.plan.stale = 3 * time.Second
	}
	w.ownClock = w.store != clocked && (w.store != local || d.oneIn(2))
	switch w.explicit = d.oneIn(2); {
	case w.explicit:
		w.maxSkew = pick(d, ms, 20*ms, 250*ms, w.step)
	case w.ownClock:
		w.maxSkew = time.Minute
	case w.store == local:
		w.maxSkew = w.step
	default:
		w.maxSkew = max(w.step, time.Second) // a server's time is known to within a round trip
	}
	w.foreign = pick(d, slidingttl.Adopt, slidingttl.Adopt, slidingttl.ReadOnly, slidingttl.Reject)
	w.plants = d.oneIn(2)
	switch d.n(4) {
	case 0, 1:
		w.policyOf = true
	case 2:
		w.policyFor = true
	}
	w.mixed, w.changing = d.oneIn(3), d.oneIn(3)
	w.keys = []string{"a", "b"}
	if w.store != local && w.foreign == slidingttl.Adopt && d.oneIn(2) {
		w.keys, w.wraps = append(w.keys, "w"), true
	}
	rules := w.rules(d)
	w.idle = max(rules[0].IdleGrace, rules[1].IdleGrace)
	if w.store == local {
		w.retain = pick(d, 0, w.idle/2, 10*w.idle)
	}
	w.outages = pick(d, 0, 0, w.idle, 5*w.idle)
	processes := 1 + d.n(3)
	skews := min(w.maxSkew, w.idle/4)
	for id := range processes {
		p := &process{w: w, id: id, tables: []table{{of: rules}}, reads: map[string]map[driver.Meta]bool{}}
		if w.mixed {
			p.tables[0].of = w.rules(d)
		}
		if w.ownClock {
			p.skew = pick(d, 0, skews/2, -skews/2, d.upTo(skews)-skews/2)
		}
		p.opts = slidingttl.Options[value]{
			Touches: pick(d, slidingttl.Wait, slidingttl.Background),
			Queue:   1 + d.n(4), Workers: d.n(4), Parallel: 1 + d.n(3), Remember: pick(d, 0, 1, 4),
			TouchWait: pick(d, 0, 2*ms, 30*ms), TouchTimeout: pick(d, 0, 0, 20*ms),
			Foreign: w.foreign, Latest: d.oneIn(4),
		}
		if p.opts.Touches == slidingttl.Wait {
			p.opts.Strict = d.oneIn(4)
		}
		if !p.opts.Strict {
			p.opts.Budget = pick(d, 0, 0, 0.1, 1, 10)
		}
		if w.explicit {
			p.opts.MaxSkew = w.maxSkew
		}
		if w.ownClock {
			p.opts.Now = p.now
		}
		w.processes = append(w.processes, p)
	}
	return w
}

// rules draws a policy for each kind of value.
func (w *world) rules(d *dice) (of [kinds]rule) {
	for kind := range of {
		idle := pick(d, time.Second, 10*time.Second, 2*time.Minute)
		p := slidingttl.Policy{
			IdleGrace:   idle,
			MaxLifetime: pick(d, idle, idle+ms, idle*3/2+500*ms, 4*idle+123*ms, 30*idle),
			Slack:       pick(d, 0, idle/10, idle/4, idle),
		}
		p.MaxSlack = pick(d, 0, p.Slack, idle)
		if d.oneIn(5) {
			p.Slack, p.MaxSlack, p.Promote = 0, 0, true
		}
		of[kind] = rule{p}
		if kind > 0 && !w.policyOf && !w.policyFor {
			of[kind] = of[0]
		}
	}
	return of
}
