//go:build !race

package admission

import (
	"bytes"
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
	touches *rand.Rand // for touches and their reads, which may be at any time
	failing int        // of a thousand calls
	slow    int        // of a thousand calls of touches, which may land after the request
	failed  int        // calls that did, or were slow
	between func()     // called before a call that a request makes

	renewed map[string]time.Time // tokens' hashes, and when the token was renewed
	broken  func(error)
}

// replaced judges that r was written over was: a token that was renewed is never again the session's, and is
// accepted for the grace only.
func (f *flaky) replaced(was, r session.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if len(was.Token) > 0 && !bytes.Equal(was.Token, r.Token) {
		f.renewed[string(was.Token)] = now
	}
	if _, old := f.renewed[string(r.Token)]; old {
		f.broken(errors.New("a token that was renewed is written as the session's"))
	}
	for _, t := range r.Former {
		if at := f.renewed[string(t.Token)]; t.Until.Time().After(at.Add(grace + skew)) {
			f.broken(fmt.Errorf("a token that was renewed at %v is written as good until %v", at, t.Until.Time()))
		}
	}
}

var errDown = errors.New("the store is down")

func (f *flaky) Resolution() time.Duration { return f.step }

// call makes a call of the store, unless that fails. No request is made within a touch: its caller may leave
// it, and then two goroutines would make requests.
func (f *flaky) call(ctx context.Context, op string, do func() error) error {
	f.mu.Lock()
	dice, between := f.dice, f.between
	deadline, bounded := ctx.Deadline()
	touches := bounded && time.Until(deadline) <= 5*time.Second // TouchTimeout; sessions give their other calls longer
	if touches {
		dice, between = f.touches, nil
	}
	before, after := dice.IntN(1000) < f.failing, dice.IntN(1000) < f.failing
	var wait time.Duration
	if touches && dice.IntN(1000) < f.slow {
		wait = time.Duration(dice.Int64N(int64(time.Second)))
	}
	if before || after || wait > 0 {
		f.failed++
	}
	f.mu.Unlock()
	if between != nil {
		between()
	}
	time.Sleep(wait)
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
	err = f.call(ctx, "get", func() (err error) { e, err = f.Driver.Get(ctx, key); return err })
	return e, err
}

func (f *flaky) Insert(ctx context.Context, key string, r session.Record, l driver.Life, now driver.Instant) (v driver.Version, err error) {
	err = f.call(ctx, "insert", func() (err error) { v, err = f.Driver.Insert(ctx, key, r, l, now); return err })
	return v, err
}

func (f *flaky) Replace(ctx context.Context, key string, r session.Record, was driver.Meta, l driver.Life, now driver.Instant) (v driver.Version, err error) {
	err = f.call(ctx, "replace", func() error {
		e, err := f.Driver.Get(ctx, key)
		if err == nil {
			v, err = f.Driver.Replace(ctx, key, r, was, l, now)
		}
		if err == nil {
			f.replaced(e.Value, r)
		}
		return err
	})
	return v, err
}

func (f *flaky) Touch(ctx context.Context, key string, was driver.Meta, l driver.Life, now driver.Instant) (v driver.Version, err error) {
	err = f.call(ctx, "touch", func() (err error) { v, err = f.Driver.Touch(ctx, key, was, l, now); return err })
	return v, err
}

func (f *flaky) Delete(ctx context.Context, key string) error {
	return f.call(ctx, "delete", func() error { return f.Driver.Delete(ctx, key) })
}
