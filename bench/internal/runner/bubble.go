package simulation

import (
	"testing"
	"testing/synctest"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

// bubbles runs functions in bubbles of virtual time, one after the other. Bubbles
// are to be had from the testing package only, so what asks for them becomes a test,
// in a process that does nothing else.
type bubbles struct {
	todo chan func()
	done chan struct{}
}

func newBubbles() *bubbles {
	b := &bubbles{make(chan func()), make(chan struct{})}
	all := func(_, _ string) (bool, error) { return true, nil }
	go testing.Main(all, []testing.InternalTest{{Name: "simulation", F: func(t *testing.T) {
		for f := range b.todo {
			synctest.Test(t, func(*testing.T) { f() })
			b.done <- struct{}{}
		}
	}}}, nil, nil)
	return b
}

func (b *bubbles) run(f func()) {
	b.todo <- f
	<-b.done
}

// contestant simulates a strategy in a process of its own.
func contestant(s strategy) runner.Contestant {
	return runner.Serving(s.name, func() (func(task) (runner.Sample, error), error) {
		b := newBubbles()
		return func(t task) (sample runner.Sample, err error) {
			b.run(func() { sample, err = simulate(s, t) })
			return sample, err
		}, nil
	})
}
