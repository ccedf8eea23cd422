//go:build !race

package admission

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// flaky is the store as a release reaches it, over a network: calls fail before or after they have
// had their effect, and other calls are made while one is under way.
type flaky struct {
	driver.Driver[session.Record]
	step time.Duration

	mu      sync.Mutex // guards the rest: touches run on goroutines of their own
	dice    *rand.Rand
	touches *rand.Rand      // for touches, which may be at any time
	failing int             // of a thousand calls
	failed  int             // calls that did
	between func(op string) // called before a call, unless it is a touch
}

var errDown = errors.New("the store is down")

func (f *flaky) Resolution() time.Duration { return f.step }

// call makes a call of the store, unless that fails.
func (f *flaky) call(op string, do func() error) error {
	f.mu.Lock()
	dice := f.dice
	if op == "touch" {
		dice = f.touches
	}
	before, after := dice.IntN(1000) < f.failing, dice.IntN(1000) < f.failing
	if before || after {
		f.failed++
	}
	between := f.between
	f.mu.Unlock()
	if between != nil && op != "touch" {
		between(op)
	}
	if before {
		return errDown
	}
	if err := do(); err != nil || !after {
		return err
	}
	if op == "get" {
		return errDown
	}
	return fmt.Errorf("%w: %w", driver.ErrAmbiguous, errDown)
}

func (f *flaky) failures() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *flaky) Get(ctx context.Context, key string) (e driver.Entry[session.Record], err error) {
	err = f.call("get", func() (err error) { e, err = f.Driver.Get(ctx, key); return err })
	return e, err
}

func (f *flaky) Insert(ctx context.Context, key string, r session.Record, l driver.Life, now driver.Instant) (v driver.Version, err error) {
	err = f.call("insert", func() (err error) { v, err = f.Driver.Insert(ctx, key, r, l, now); return err })
	return v, err
}

func (f *flaky) Replace(ctx context.Context, key string, r session.Record, was driver.Meta, l driver.Life, now driver.Instant) (v driver.Version, err error) {
	err = f.call("replace", func() (err error) { v, err = f.Driver.Replace(ctx, key, r, was, l, now); return err })
	return v, err
}

func (f *flaky) Touch(ctx context.Context, key string, was driver.Meta, l driver.Life, now driver.Instant) (v driver.Version, err error) {
	err = f.call("touch", func() (err error) { v, err = f.Driver.Touch(ctx, key, was, l, now); return err })
	return v, err
}

func (f *flaky) Delete(ctx context.Context, key string) error {
	return f.call("delete", func() error { return f.Driver.Delete(ctx, key) })
}
