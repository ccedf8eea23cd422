package drivertest

import (
	"context"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// spy is a driver between a store and the driver under test. It counts calls, and can delay
// them or make them fail. The store must keep its promises then, and so must the driver when
// its calls come late.
type spy struct {
	fakestore.Driver[Value]
	under driver.Driver[Value]

	mu    sync.Mutex // guards the rest
	calls map[string]int
	hooks map[string]func(context.Context) error
}

// The calls that a spy distinguishes.
const (
	callGet     = fakestore.Get
	callInsert  = fakestore.Insert
	callReplace = fakestore.Replace
	callUpsert  = fakestore.Upsert
	callTouch   = fakestore.Touch
	callDelete  = fakestore.Delete
)

// spied returns a spy on the driver under test, for a store. It upserts and reads batches by
// driver.Upsert and driver.GetMulti on that driver.
func (t *trial) spied() *spy {
	s := &spy{under: t.d, calls: make(map[string]int), hooks: make(map[string]func(context.Context) error)}
	s.Step, s.Handle = t.d.Resolution(), s.answer
	s.Has = []any{(*driver.Upserter[Value])(nil), (*driver.BatchGetter[Value])(nil)}
	return s
}

func (s *spy) answer(c *fakestore.Call[Value]) {
	op := c.Op
	if c.Reads() {
		op = callGet
	}
	s.mu.Lock()
	s.calls[op]++
	hook := s.hooks[op]
	s.mu.Unlock()
	if hook != nil {
		if c.Err = hook(c.Ctx); c.Err != nil {
			return
		}
	}
	fakestore.Forward(s.under, c)
}

// count returns the number of calls of that kind so far.
func (s *spy) count(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[call]
}

// writes returns the number of calls so far that write.
func (s *spy) writes() int {
	return s.count(callInsert) + s.count(callReplace) + s.count(callUpsert) + s.count(callTouch) + s.count(callDelete)
}

// on runs hook before each call of that kind and returns its error from the call. A nil hook lets
// calls pass.
func (s *spy) on(call string, hook func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks[call] = hook
}

// held is a call that a spy holds up.
type held struct {
	t       *trial
	call    string
	arrived chan struct{}
	gate    chan struct{}
	once    sync.Once
}

// hold holds up the next call of that kind until it is released.
func (t *trial) hold(s *spy, call string) *held {
	h := &held{t: t, call: call, arrived: make(chan struct{}), gate: make(chan struct{})}
	var first sync.Once
	s.on(call, func(ctx context.Context) error {
		var err error
		first.Do(func() {
			s.on(call, nil)
			close(h.arrived)
			select {
			case <-h.gate:
			case <-ctx.Done():
				err = ctx.Err()
			}
		})
		return err
	})
	t.cleanup(h.release)
	return h
}

// arrives returns when the call has come.
func (h *held) arrives() {
	select {
	case <-h.arrived:
	case <-time.After(soon):
		h.t.Fatalf("no %s has come within %v", h.call, soon)
	}
}

func (h *held) release() { h.once.Do(func() { close(h.gate) }) }
