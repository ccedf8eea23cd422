package touches

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Flush carries out what waits, and returns when that and what was under way has ended.
//
// It goes by nearest death, whatever the budget. It returns an error if ctx ends before, or
// the store fails and refuses a touch. What is left waits on.
func (t *Touches) Flush(ctx context.Context) error {
	t.mu.Lock()
	t.flushing++
	refusal := t.refusal
	var jobs []*job
	for _, s := range t.keys {
		jobs = append(jobs, s.waiting...)
		if s.running != nil {
			jobs = append(jobs, s.running)
		}
	}
	t.dispatch()
	t.mu.Unlock()
	left, why := 0, error(nil)
	for _, j := range jobs {
		select {
		case <-j.done:
		case <-ctx.Done():
		case <-refusal:
		}
		if !ended(j.done) {
			left++
		} else if j.outcome.failed() {
			left++
			why = cmp.Or(why, j.outcome.Err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !ended(refusal) {
		t.flushing--
	}
	if left == 0 {
		return nil
	}
	return fmt.Errorf("%d touches left: %w", left, cmp.Or(ctx.Err(), why, t.refused, ErrClosed))
}

// Close waits until calls is closed, and for the touches that wait and run.
//
// When ctx ends first it gives up what is left, and waits for the touches under way to return.
// What waits is given up as well when the store fails and refuses a touch. Close returns how
// many touches it gave up, and why.
func (t *Touches) Close(ctx context.Context, calls <-chan struct{}) (givenUp int, err error) {
	t.mu.Lock()
	t.closing = true
	t.dispatch()
	t.mu.Unlock()
	done := make(chan struct{})
	go func() {
		select {
		case <-calls:
		case <-t.stop.Done():
		}
		t.active.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		t.mu.Lock()
		t.halted = true
		dropped := t.dropAll()
		t.mu.Unlock()
		t.giveUp()
		for _, j := range dropped {
			t.finish(j)
		}
		<-done
	}
	t.giveUp()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, timer := range []*time.Timer{t.wake, t.pressure.calm} {
		if timer != nil {
			timer.Stop()
		}
	}
	givenUp, t.givenUp = t.givenUp, 0
	return givenUp, cmp.Or(err, t.refused, ErrClosed)
}

// dropAll gives up what waits.
func (t *Touches) dropAll() (dropped []*job) {
	for _, s := range t.keys {
		dropped = append(dropped, s.waiting...)
	}
	for _, j := range dropped {
		t.drop(j, ErrClosed, Failed)
	}
	t.givenUp += len(dropped)
	return dropped
}

// refuse ends calls of Flush, and has Close give up what waits: the store fails, and did not
// take one more touch.
func (t *Touches) refuse(err error) (dropped []*job) {
	t.refused, t.flushing = err, 0
	close(t.refusal)
	t.refusal = make(chan struct{})
	if t.closing {
		return t.dropAll()
	}
	return nil
}

// Now returns the state, how many touches wait, and how long some waited for a worker only.
func (t *Touches) Now() (state State, waiting int, saturated time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pressure.State, t.waiting, t.flights.note(!t.flights.full.IsZero())
}
