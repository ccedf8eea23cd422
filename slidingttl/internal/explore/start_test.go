package explore

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

const minute = time.Minute

// The policies of all programs. A mode may add slack.
var (
	base  = slidingttl.Policy{IdleGrace: 10 * minute, MaxLifetime: 30 * minute}
	tight = slidingttl.Policy{IdleGrace: 2 * minute, MaxLifetime: 25 * minute}
	loose = slidingttl.Policy{IdleGrace: 16 * minute, MaxLifetime: 40 * minute}
)

// mode is how the processes make their touches, and which clocks they have.
type mode struct {
	slack, most time.Duration   // Slack and MaxSlack of the policies
	skew        []time.Duration // of each process's clock
	broken      bool            // the breakers are open
	idle        time.Duration   // IdleGrace in place of the policies' own
	hook        string          // what OnTouchError does; see process.onTouchError
	options     slidingttl.Options[value]
}

// modes by name. Where touches wait in a queue, what a touch writes may belong to any
// access before it.
var modes = map[string]mode{
	"exact":      {},
	"slack":      {slack: minute},
	"ahead":      {skew: []time.Duration{0, 30 * time.Second, 30 * time.Second}},
	"behind":     {skew: []time.Duration{0, -30 * time.Second, -30 * time.Second}},
	"background": {options: slidingttl.Options[value]{Touches: slidingttl.Background}},
	"budget":     {slack: minute, most: 2 * minute, options: slidingttl.Options[value]{Budget: 0.5}},
	"broken":     {broken: true},
	"strict":     {options: slidingttl.Options[value]{Strict: true}},

	"apart": {skew: []time.Duration{0, -100 * time.Millisecond, -100 * time.Millisecond}},
	"brief": {idle: brief, options: slidingttl.Options[value]{PolicyOf: func(value) slidingttl.Policy { return briefly }}},
	"exits": {options: slidingttl.Options[value]{PolicyOf: func(v value) slidingttl.Policy {
		if v.from == exits {
			runtime.Goexit()
		}
		return base
	}}},
	"batch":  {options: slidingttl.Options[value]{Parallel: 1, Workers: 1}},
	"calls":  {hook: "get"},
	"closes": {hook: "close"},
	"hangs":  {hook: "hang"},
}

// brief is an idle grace that is over before a read's wait for its touch is.
const brief = 60 * time.Millisecond

var briefly = slidingttl.Policy{IdleGrace: brief, MaxLifetime: base.MaxLifetime}

// queues reports whether touches may wait in a queue.
func (m *mode) queues() bool {
	return m.broken || m.options.Budget > 0 || m.options.Touches == slidingttl.Background
}

func (m *mode) policy(p slidingttl.Policy) slidingttl.Policy {
	p.Slack, p.MaxSlack = m.slack, m.most
	p.IdleGrace = cmp.Or(m.idle, p.IdleGrace)
	return p
}

// starts are what has happened before a program: first is the store of process 0, all are
// those of all processes.
var starts = map[string]func(w *world, first *slidingttl.Store[value], all []*process){
	"absent": func(*world, *slidingttl.Store[value], []*process) {},
	"fresh": func(_ *world, first *slidingttl.Store[value], all []*process) {
		inserted(first, all)
	},
	"due": func(w *world, first *slidingttl.Store[value], all []*process) {
		inserted(first, all)
		time.Sleep(w.mode.slack + min(minute, base.IdleGrace, cmp.Or(w.mode.idle/4, minute)))
	},
	// Only process 0 remembers the record.
	"unknown": func(w *world, first *slidingttl.Store[value], _ []*process) {
		inserted(first, nil)
		time.Sleep(w.mode.slack + minute)
	},
	// The record has died of idleness, and the processes remember it.
	"dead": func(w *world, first *slidingttl.Store[value], all []*process) {
		inserted(first, all)
		time.Sleep(w.mode.slack + base.IdleGrace)
	},
	// The expiry lies beyond the policy.
	"long": long,
	// Process 0 has just lowered the expiry.
	"lowered": func(w *world, first *slidingttl.Store[value], all []*process) {
		long(w, first, all)
		_, err := first.Get(context.Background(), key)
		must(err)
		w.processes[0].lowered = append(w.processes[0].lowered, time.Now())
		time.Sleep(20 * time.Second)
	},
	// The record has no created_at.
	"foreign": func(w *world, _ *slidingttl.Store[value], all []*process) {
		must(repository{w.dial(all[0])}.Upsert(context.Background(), key, value{}))
	},
}

func long(w *world, first *slidingttl.Store[value], all []*process) {
	for _, p := range all {
		must(p.store.SetPolicy(w.mode.policy(loose)))
	}
	inserted(first, all)
	for _, p := range all {
		must(p.store.SetPolicy(w.mode.policy(base)))
	}
}

// inserted inserts the record through a store, and reads it in all processes.
func inserted(first *slidingttl.Store[value], all []*process) {
	ctx := context.Background()
	must(first.Insert(ctx, key, value{}))
	for _, p := range all {
		_, err := p.store.Get(ctx, key)
		must(err)
	}
}

// breakOpen makes all touches of another record fail until the breakers are open. A touch that
// failed rests for some seconds before it is tried again.
func breakOpen(all []*process) {
	for _, p := range all {
		for i := 0; i < 20 && !p.store.Stats().BreakerOpen; i++ {
			_, err := p.store.Get(context.Background(), aside)
			must(err)
			time.Sleep(time.Second)
		}
		if !p.store.Stats().BreakerOpen {
			panic("the breaker of a process is closed")
		}
	}
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("before the program: %v", err))
	}
}
