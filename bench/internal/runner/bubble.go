package runner

import (
	"testing"
	"testing/synctest"
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

// InBubbles returns a contestant that does each of its tasks in a bubble of virtual time.
func InBubbles[T any](name string, do func(T) (Sample, error)) Contestant {
	return Serving(name, func() (func(T) (Sample, error), error) {
		b := newBubbles()
		return func(task T) (sample Sample, err error) {
			b.run(func() { sample, err = do(task) })
			return sample, err
		}, nil
	})
}
