package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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
			for n := range 2 { // the second time of a driver that has learned from a call what it needs
				key := t.key(fmt.Sprint(op.name, n))
				e := t.insert(key, 1, t.life(time.Hour))
				ctx, cancel := t.ended()
				err := op.call(ctx, key, e.Meta)
				cancel()
				if !errors.Is(err, context.Canceled) && !(local && (err == nil || op.name == "Insert")) {
					t.Errorf("%s with a context that was cancelled: the error is %v; want %v", op.name, err, context.Canceled)
				}
				_ = op.call(t.ctx, key, e.Meta)
			}
		}
	},
}, {
	name:        "context/ends-at-any-step",
	explanation: "A read whose context ends while it is under way must return all that it was asked for, or the context's error. Otherwise a live record counts as absent because a client left.",
	run: func(t *trial) {
		const n = 20
		var keys []string
		for i := range n {
			keys = append(keys, t.key(fmt.Sprint(i)))
			t.insert(keys[i], i, t.life(time.Hour))
		}
		for name, read := range map[string]func(context.Context) (found int, err error){
			"Get": func(ctx context.Context) (int, error) {
				_, err := t.d.Get(ctx, keys[0])
				return n, err
			},
			"GetMulti": func(ctx context.Context) (int, error) {
				found, err := driver.GetMulti(ctx, t.d, keys)
				return len(found), err
			},
		} {
			_, _ = read(t.ctx) // learns what later calls need not ask for
			for steps := int64(0); ; steps += 1 + steps/8 {
				ctx, cancel := endsAfter(t.ctx, steps)
				found, err := read(ctx)
				left := ctx.Context.Err() == nil
				cancel()
				if err == nil && found < n || err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("%s of %d live records, whose context ended at step %d: %d records, and the error is %v; want all, or %v", name, n, steps, found, err, context.Canceled)
				}
				if left {
					break
				}
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

// stepped is a context that is cancelled when it has been asked a number of times.
type stepped struct {
	context.Context
	cancel context.CancelFunc
	left   atomic.Int64
}

// endsAfter returns a context that is cancelled after steps.
func endsAfter(ctx context.Context, steps int64) (*stepped, context.CancelFunc) {
	s := new(stepped)
	s.Context, s.cancel = context.WithCancel(ctx)
	s.left.Store(steps)
	return s, s.cancel
}

func (s *stepped) step() {
	if s.left.Add(-1) < 0 {
		s.cancel()
	}
}

func (s *stepped) Done() <-chan struct{} { s.step(); return s.Context.Done() }
func (s *stepped) Err() error            { s.step(); return s.Context.Err() }
func (s *stepped) Value(key any) any     { s.step(); return s.Context.Value(key) }

// closed returns a channel that is ready for every receive.
func closed() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}
