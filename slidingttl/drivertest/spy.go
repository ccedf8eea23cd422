package drivertest

import (
	"context"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// spy is a driver between a store and the driver under test. It counts calls, and can delay
// them or make them fail. The store must keep its promises then, and so must the driver when
// its calls come late.
type spy struct {
	driver.Driver[Value]

	mu    sync.Mutex // guards the rest
	calls map[string]int
	hooks map[string]func(context.Context) error
}

// The calls that a spy distinguishes.
const (
	callGet     = "get"
	callInsert  = "insert"
	callReplace = "replace"
	callUpsert  = "upsert"
	callTouch   = "touch"
	callDelete  = "delete"
)

// spied returns a spy on the driver under test, for a store.
func (t *trial) spied() *spy {
	return &spy{Driver: t.d, calls: make(map[string]int), hooks: make(map[string]func(context.Context) error)}
}

func (s *spy) enter(ctx context.Context, call string) error {
	s.mu.Lock()
	s.calls[call]++
	hook := s.hooks[call]
	s.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx)
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

func (s *spy) Get(ctx context.Context, key string) (driver.Entry[Value], error) {
	if err := s.enter(ctx, callGet); err != nil {
		return driver.Entry[Value]{}, err
	}
	return s.Driver.Get(ctx, key)
}

func (s *spy) Insert(ctx context.Context, key string, v Value, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := s.enter(ctx, callInsert); err != nil {
		return 0, err
	}
	return s.Driver.Insert(ctx, key, v, life, now)
}

func (s *spy) Replace(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := s.enter(ctx, callReplace); err != nil {
		return 0, err
	}
	return s.Driver.Replace(ctx, key, v, was, life, now)
}

func (s *spy) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := s.enter(ctx, callTouch); err != nil {
		return 0, err
	}
	return s.Driver.Touch(ctx, key, was, life, now)
}

func (s *spy) Delete(ctx context.Context, key string) error {
	if err := s.enter(ctx, callDelete); err != nil {
		return err
	}
	return s.Driver.Delete(ctx, key)
}

// Upsert implements driver.Upserter, by driver.Upsert on the driver under test.
func (s *spy) Upsert(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
	if err := s.enter(ctx, callUpsert); err != nil {
		return driver.Meta{}, err
	}
	return driver.Upsert(ctx, s.Driver, key, v, known, plan, now)
}

// GetMulti implements driver.BatchGetter, by driver.GetMulti on the driver under test.
func (s *spy) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[Value], error) {
	if err := s.enter(ctx, callGet); err != nil {
		return nil, err
	}
	return driver.GetMulti(ctx, s.Driver, keys)
}
