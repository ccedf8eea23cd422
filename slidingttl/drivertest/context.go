package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// ended returns a cancelled context.
func (t *trial) ended() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	return ctx, cancel
}

// soon is how long after its context's end a call may return, on a busy machine.
const soon = 10 * time.Second

var contextCases = []testCase{{
	name:        "context/ended-before",
	explanation: "A call whose context has ended must return the context's error, as it is or wrapped: by it, callers distinguish a client that left from a store that failed. Only a driver.Local, whose calls do not block, may go on.",
	run: func(t *trial) {
		_, local := driver.As[driver.Local[Value]](t.d)
		for _, op := range t.ops() {
			key := t.key(op.name)
			e := t.insert(key, 1, t.life(time.Hour))
			ctx, cancel := t.ended()
			err := op.call(ctx, key, e.Meta)
			cancel()
			if local && (err == nil || op.name == "Insert") {
				continue
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s with a context that was cancelled: the error is %v; want %v", op.name, err, context.Canceled)
			}
		}
	},
}, {
	name:        "context/ends-meanwhile",
	explanation: "A call must return soon after its context ends even if the store does not answer. Otherwise requests pile up behind a store that hangs, and Close never returns.",
	needs:       []Feature{Hang},
	run: func(t *trial) {
		ops := t.ops()
		was := make([]driver.Meta, len(ops))
		for i, op := range ops {
			was[i] = t.insert(t.key(op.name), 1, t.life(time.Hour)).Meta
		}
		release := t.b.Hang()
		t.cleanup(release)
		ctx, cancel := context.WithTimeout(t.ctx, 300*time.Millisecond)
		defer cancel()
		returned := make([]chan error, len(ops))
		for i, op := range ops {
			returned[i] = make(chan error, 1)
			go func() { returned[i] <- op.call(ctx, t.key(op.name), was[i]) }()
		}
		<-ctx.Done()
		late := time.After(soon)
		for i, op := range ops {
			select {
			case err := <-returned[i]:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s when its context's deadline passed: the error is %v; want %v", op.name, err, context.DeadlineExceeded)
				}
				t.quiet(op.name+" when its context's deadline passed", err)
				returned[i] = nil
			case <-late:
				t.Errorf("%s had not returned %v after its context ended", op.name, soon)
				late = closed()
			}
		}
		release()
		for i := range ops {
			if returned[i] != nil {
				<-returned[i]
			}
		}
	},
}}

// closed returns a channel that is ready for every receive.
func closed() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}
