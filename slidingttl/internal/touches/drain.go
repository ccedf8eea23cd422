package touches

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Flush sends the waiting touches, and returns when these and those under way have ended.
//
// It sends the nearest to death first, and ignores the budget. It returns an error if ctx ends
// first, or if the store is failing and refuses a touch. Touches that are left keep waiting.
func (t *Touches) Flush(ctx context.Context) error {
	t.lock()
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
	t.lock()
	defer t.mu.Unlock()
	if !ended(refusal) {
		t.flushing--
	}
	if left == 0 {
		return nil
	}
	return fmt.Errorf("%d touches left: %w", left, cmp.Or(ctx.Err(), why, t.refused, ErrClosed))
}

// Close waits until calls is closed and no touch waits or runs.
//
// If ctx ends first, it gives up the waiting touches, and waits until those under way have
// returned. It also gives up the waiting touches if the store is failing and refuses one. Close
// returns how many touches it gave up, and why.
func (t *Touches) Close(ctx context.Context, calls <-chan struct{}) (givenUp int, err error) {
	t.lock()
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
		t.lock()
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
	t.lock()
	defer t.mu.Unlock()
	for _, timer := range []*time.Timer{t.wake, t.pressure.calm} {
		if timer != nil {
			timer.Stop()
		}
	}
	givenUp, t.givenUp = t.givenUp, 0
	return givenUp, cmp.Or(err, t.refused, ErrClosed)
}

// dropAll gives up the waiting touches.
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

// refuse is called if the store is failing and refused one more touch. It ends calls of Flush, and
// makes Close give up the waiting touches.
func (t *Touches) refuse(err error) (dropped []*job) {
	t.refused, t.flushing = err, 0
	close(t.refusal)
	t.refusal = make(chan struct{})
	if t.closing {
		return t.dropAll()
	}
	return nil
}

// Now returns the state, the number of waiting touches, and how long some waited only for a worker.
func (t *Touches) Now() (state State, waiting int, saturated time.Duration) {
	t.lock()
	defer t.mu.Unlock()
	return t.pressure.State, t.waiting, t.flights.note(!t.flights.full.IsZero())
}
