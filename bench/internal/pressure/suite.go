package pressure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/drivers/redis/redistest"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

const (
	suiteName = "pressure"
	wired     = "on Redis: " // before the name of a strategy, in real time
)

// Suite is the strategies under pressure.
func Suite() runner.Suite {
	s := runner.Suite{Name: suiteName, Run: measure, Smoke: task{Kind: herdKind, Nodes: 2, Length: 200 * time.Millisecond}}
	for _, st := range strategies {
		do := func(t task) (runner.Sample, error) { return simulate(st, t) }
		s.Contestants = append(s.Contestants, runner.InBubbles(st.name, do),
			runner.Serving(wired+st.name, func() (func(task) (runner.Sample, error), error) { return do, nil }))
	}
	return s
}

// pressed is a task and who does it.
type pressed struct {
	task
	strategy string
}

// both has both strategies do a task.
func both(t task) []pressed { return []pressed{{t, ownName}, {t, inlineName}} }

func tasks(p runner.Plan) (all []pressed) {
	for _, nodes := range []int{8, 32} {
		all = append(all, both(task{Kind: herdKind, Nodes: nodes, Length: runner.Pick(p, 20*time.Minute, 2*time.Minute)})...)
	}
	for _, throttled := range []time.Duration{0, time.Minute} {
		all = append(all, both(task{Kind: latencyKind, Nodes: 1, Idle: 30 * time.Minute, Throttled: throttled,
			Keys: runner.Pick(p, 10_000, 2000), Rate: runner.Pick(p, 1000, 200), Length: time.Minute})...)
	}
	for _, idle := range runner.Pick(p, []time.Duration{30 * time.Minute, 6 * time.Minute}, []time.Duration{6 * time.Minute}) {
		for _, throttled := range []time.Duration{time.Minute, 5 * time.Minute} {
			all = append(all, both(task{Kind: recoveryKind, Nodes: 1, Idle: idle, Throttled: throttled,
				Keys: runner.Pick(p, 10_000, 1000), Rate: runner.Pick(p, 1000, 100)})...)
		}
	}
	return all
}

// wires are the tasks that are done in real time as well, those of a slice together.
func wires(address string) (all [][]pressed) {
	herds := append(both(task{Kind: herdKind, Nodes: 8}), both(task{Kind: herdKind, Nodes: 32})...)
	for i := range herds {
		herds[i].Length = 3 * time.Minute
	}
	all = append(all, herds)
	for _, throttled := range []time.Duration{0, time.Minute} {
		all = append(all, both(task{Kind: latencyKind, Nodes: 1, Idle: 30 * time.Minute, Throttled: throttled,
			Keys: 2000, Rate: 200, Length: time.Minute}))
	}
	for _, together := range all {
		for i := range together {
			together[i].Address, together[i].DB = address, i
		}
	}
	return all
}

// budgeted are the tasks with a budget, as a share of the touches that are needed.
func budgeted(p runner.Plan, needed float64) []task {
	empty := unlimited(p)
	empty.Full = false
	empty.Length *= 2
	empty.Budget = needed / 4
	many := empty
	many.Nodes, many.Budget = 8, needed/4/8
	tenth := unlimited(p)
	tenth.Budget = needed / 10
	return []task{empty, many, tenth}
}

// unlimited finds out how many touches are needed.
func unlimited(p runner.Plan) task {
	return task{Kind: budgetKind, Nodes: 1, Idle: runner.Pick(p, 30*time.Minute, 6*time.Minute), Full: true,
		Keys: runner.Pick(p, 10_000, 1000), Rate: runner.Pick(p, 1000, 100), Length: runner.Pick(p, 30*time.Minute, 6*time.Minute)}
}

func measure(p runner.Plan) (runner.Report, error) {
	results := new(runner.Results)
	var mu sync.Mutex // guards results
	once := func(who string, t task) (runner.Sample, error) {
		began := time.Now()
		// One thread: a bubble's goroutines mostly wait for each other.
		contestant := who
		if t.Address != "" {
			contestant = wired + who
		}
		s, err := runner.Once(suiteName, contestant, t, "GOMAXPROCS=1")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name(), err)
		}
		mu.Lock()
		defer mu.Unlock()
		results.Add(who, t.name(), s)
		p.Log("%s: %s: %.1fs", t.name(), who, time.Since(began).Seconds())
		return s, nil
	}
	var budgets []task
	var g errgroup.Group
	g.SetLimit(2)
	g.Go(func() error { // which takes the longest
		need, err := once(ownName, unlimited(p))
		if err != nil {
			return err
		}
		budgets = budgeted(p, need["touches-per-s"])
		for _, t := range budgets {
			if _, err := once(ownName, t); err != nil {
				return err
			}
		}
		return nil
	})
	for _, t := range tasks(p) {
		g.Go(func() error {
			_, err := once(t.strategy, t.task)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return runner.Report{}, err
	}
	all := tasks(p)
	g.SetLimit(4) // which mostly wait
	if !p.Quick {
		server, err := redistest.Run(context.Background())
		if err != nil {
			p.Log("NOT RUN on a wire: %v", err)
			return report(all, unlimited(p), results, budgets), nil
		}
		defer server.Close()
		for _, together := range wires(server.Addr) {
			for _, t := range together {
				g.Go(func() error {
					_, err := once(t.strategy, t.task)
					return err
				})
			}
			if err := g.Wait(); err != nil {
				return runner.Report{}, err
			}
			all = append(all, together...)
		}
	}
	return report(all, unlimited(p), results, budgets), nil
}
