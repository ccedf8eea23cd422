package pressure

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var errThrottled = errors.New("throttled")

// wire is a store at the other end of a network. It offers no capability.
type wire struct {
	driver.Driver[int]
	leg time.Duration // each way

	mu        sync.Mutex // guards the rest
	throttled bool       // touches are refused, after the client has tried for seconds
	touches   map[int64]int
	refused   int // touches whose condition failed
	expires   map[string]driver.Instant
}

func newWire(under driver.Driver[int], leg time.Duration) *wire {
	return &wire{Driver: under, leg: leg, touches: make(map[int64]int), expires: make(map[string]driver.Instant)}
}

func (w *wire) throttle(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.throttled = on
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *wire) Get(ctx context.Context, key string) (e driver.Entry[int], err error) {
	if err = sleep(ctx, w.leg); err == nil {
		e, err = w.Driver.Get(ctx, key)
	}
	return e, errors.Join(err, sleep(ctx, w.leg))
}

func (w *wire) Insert(ctx context.Context, key string, v int, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := sleep(ctx, w.leg); err != nil {
		return 0, err
	}
	version, err := w.Driver.Insert(ctx, key, v, life, now)
	w.landed(key, life, err)
	return version, errors.Join(err, sleep(ctx, w.leg))
}

func (w *wire) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := sleep(ctx, w.leg); err != nil {
		return 0, err
	}
	w.mu.Lock()
	w.touches[time.Now().Unix()]++
	throttled := w.throttled
	w.mu.Unlock()
	if throttled {
		// As an SDK does, which retries by itself.
		return 0, errors.Join(errThrottled, sleep(ctx, 2*time.Second+rand.N(3*time.Second)))
	}
	version, err := w.Driver.Touch(ctx, key, was, life, now)
	w.landed(key, life, err)
	return version, errors.Join(err, sleep(ctx, w.leg))
}

func (w *wire) landed(key string, life driver.Life, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.expires[key] = life.ExpiresAt
	} else {
		w.refused++
	}
}

// sent is how many touches have arrived since, and in what share of the seconds there
// were more than budget.
func (w *wire) sent(since time.Time, budget float64) (touches int, over float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seconds := 0
	for at, n := range w.touches {
		if at >= since.Unix() {
			touches += n
			if float64(n) > budget+1 { // one may fall into the second before its own
				seconds++
			}
		}
	}
	return touches, float64(seconds) / time.Since(since).Seconds()
}
