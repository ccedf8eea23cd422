package runner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Suite is one field of competition.
type Suite struct {
	Name        string
	Contestants []Contestant
	// Smoke is a task that any contestant does in no time. Nil: contestants need
	// a server, and their package's tests see to it.
	Smoke any
	// Run measures them and returns what is to be reported. It must not measure
	// in this process, but in the contestants'.
	Run func(Plan) (Report, error)
}

// Plan says how much to measure.
type Plan struct {
	Quick bool
	Log   func(format string, args ...any) // progress, for whoever waits
}

// Pick returns full, or quick where time is short.
func Pick[T any](p Plan, full, quick T) T {
	if p.Quick {
		return quick
	}
	return full
}

// Shuffled returns all in the order of a round. It differs by round, so that nobody
// always follows the same other and what that leaves behind, and is the same in each run.
func Shuffled[T any](all []T, round int) []T {
	order := rand.New(rand.NewPCG(1, uint64(round))).Perm(len(all))
	shuffled := make([]T, len(all))
	for i, at := range order {
		shuffled[i] = all[at]
	}
	return shuffled
}

// Rounds has each worker do each task n times, taking turns, and returns all they
// measured. Tasks are told apart by what name returns.
func Rounds[T any](p Plan, n int, workers []*Worker, tasks []T, name func(T) string) (*Results, error) {
	r := new(Results)
	for round := range n {
		began := time.Now()
		for _, task := range tasks {
			for _, w := range Shuffled(workers, round) {
				s, err := w.Do(task)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name(task), err)
				}
				r.Add(w.Name, name(task), s)
			}
		}
		p.Log("round %d of %d: %.1fs", round+1, n, time.Since(began).Seconds())
	}
	return r, nil
}

// With starts a worker for each of names, hands them to f and closes them.
func With(suite string, names []string, f func([]*Worker) error) error {
	return WithAll(names, func(name string) (*Worker, error) { return Start(suite, name) }, f)
}

// WithAll is With for workers that start begins otherwise.
func WithAll[T any](all []T, start func(T) (*Worker, error), f func([]*Worker) error) (err error) {
	var workers []*Worker
	defer func() {
		for _, w := range workers {
			err = errors.Join(err, w.Close())
		}
	}()
	for _, one := range all {
		w, serr := start(one)
		if serr != nil {
			return serr
		}
		workers = append(workers, w)
	}
	return f(workers)
}
