package touches

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// flush is a call of Flush.
type flush struct {
	last    uint64        // number of the last touch that it waits for
	carries []*carry      // that it waits for too
	left    int           // how many of those have not ended
	failed  int           // how many have failed
	err     error         // the first failure
	done    chan struct{} // closed when none is left, or the store is failing and refused a touch
}

// Flush sends the pending touches once, and returns when these and those under way have ended.
//
// It sends the nearest to death first, and ignores the budget. It returns an error if a touch
// failed, ctx ends first, or the store is failing and refuses a touch. Touches that are left keep
// waiting.
func (t *Touches) Flush(ctx context.Context) error {
	t.lock()
	f := &flush{last: t.number, carries: slices.Clone(t.carries), left: t.pending + t.limits.running + len(t.carries), done: make(chan struct{})}
	if f.left == 0 {
		t.unlock()
		return nil
	}
	t.flushes = append(t.flushes, f)
	t.wakeAll()
	t.dispatch()
	t.unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
	case <-t.stop.Done():
	}
	t.lock()
	defer t.unlock()
	t.flushes = slices.DeleteFunc(t.flushes, func(g *flush) bool { return f == g })
	if left := f.left + f.failed; left > 0 {
		return fmt.Errorf("%d touches left: %w", left, cmp.Or(ctx.Err(), f.err, ErrClosed))
	}
	return nil
}

// Close waits until calls is closed and no touch is left.
//
// If ctx ends first, it gives up the touches that are left: those under way are cancelled, and end
// soon after Close has returned. It also gives up those that are pending if the store is failing
// and refuses one. Close returns how many touches were given up since the last Close ended, how many
// goroutines still call hooks, how many calls under counts as under way, and why.
func (t *Touches) Close(ctx context.Context, calls <-chan struct{}, under func() int) (givenUp, hooks, left int, err error) {
	t.lock()
	t.closing = true
	said := t.saidGivenUp
	t.wakeAll()
	t.dispatch()
	t.unlock()
	select {
	case <-calls:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		t.lock()
		t.draining = true
		t.unlock()
		select {
		case <-t.drained:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	t.lock()
	defer t.unlock()
	if err != nil && t.calling {
		hooks = 1
	}
	if err != nil && !t.gaveUp {
		t.halt()
		t.gaveUp, t.givenUp = true, t.givenUp+t.limits.running-t.limits.reads+t.unread()
	}
	t.giveUp()
	for _, timer := range []*time.Timer{t.wake, t.pacer} {
		if timer != nil {
			timer.Stop()
		}
	}
	t.unlock()
	left = under() // before givenUp is read: the touch of a call that is refused now is in one or the other
	t.lock()
	t.saidGivenUp = t.givenUp
	return t.givenUp - said, hooks, left, cmp.Or(err, t.refused, ErrClosed)
}

// flushed tells the calls of Flush that wait for it that a touch, or a save, has ended, with err if it failed.
func (t *Touches) flushed(waits func(*flush) bool, failed bool, err error) {
	t.flushes = slices.DeleteFunc(t.flushes, func(f *flush) bool {
		if !waits(f) {
			return false
		}
		if failed {
			f.failed, f.err = f.failed+1, cmp.Or(f.err, err)
		}
		if f.left--; f.left == 0 {
			close(f.done)
		}
		return f.left == 0
	})
}

// refuse is called if the store is failing and refused one more touch. It ends calls of Flush, and
// makes Close give up the pending touches.
func (t *Touches) refuse(err error) {
	t.refused = err
	for _, f := range t.flushes {
		f.err = err
		close(f.done)
	}
	if t.flushes = nil; t.closing {
		t.halt()
	}
}

// halt gives up the pending touches. They end on another goroutine, so that it takes no longer if
// there are many.
func (t *Touches) halt() {
	t.halted = true
	t.limits.note(false)
	t.givenUp += t.pending
	if t.pending > 0 {
		t.dropping = true
		go t.drop(t.keys)
	}
	t.recent.Init()
	t.keys, t.pending, t.ready.all, t.resting.all, t.rested.all, t.passed.all, t.farthest.all, t.oldest.all = nil, 0, nil, nil, nil, nil, nil, nil
}

// drop ends the pending touches of slots, which Close has given up.
func (t *Touches) drop(slots map[string]*slot) {
	for _, s := range slots {
		t.lock()
		for _, n := range s.pending {
			t.end(n, Outcome{Err: ErrClosed, result: Failed})
		}
		t.unlock()
	}
	t.lock()
	t.dropping = false
	t.unlock()
}

// Now returns the state, the number of pending touches, and how long some waited only for a worker.
func (t *Touches) Now() (state State, pending int, saturated time.Duration) {
	t.lock()
	defer t.unlock()
	return t.pressure.State, t.pending, t.limits.note(!t.limits.full.IsZero())
}
