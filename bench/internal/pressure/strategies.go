package pressure

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	ownName    = "slidingttl"
	inlineName = "inline"

	maxLifetime  = 12 * time.Hour
	touchTimeout = 5 * time.Second
)

// node is a process that uses the store.
type node interface {
	// get reads key, driver.ErrNotFound if it is dead or absent, and keeps it alive.
	get(key string) error
	insert(key string) error
	// waiting is how many touches wait.
	waiting() int
	close() error
}

type strategy struct {
	name string
	open func(w *wire, p slidingttl.Policy, budget float64) (node, error)
}

var strategies = []strategy{{ownName, openOwn}, {inlineName, openInline}}

// own is a slidingttl.Store in its default mode.
type own struct{ *slidingttl.Store[int] }

func openOwn(w *wire, p slidingttl.Policy, budget float64) (node, error) {
	s, err := slidingttl.New(w, p, &slidingttl.Options[int]{Budget: budget})
	return own{s}, err
}

func (o own) get(key string) error {
	_, err := o.Get(context.Background(), key)
	return err
}

func (o own) insert(key string) error { return o.Insert(context.Background(), key, 0) }
func (o own) waiting() int            { return o.Stats().Pending }
func (o own) close() error            { return o.Close(context.Background()) }

// inline touches when the expiry falls short of the promise, one touch of a key at a
// time, and looks again where another process was faster. It knows no budget.
type inline struct {
	w       *wire
	p       slidingttl.Policy
	flights singleflight.Group
	busy    atomic.Int64
}

func openInline(w *wire, p slidingttl.Policy, _ float64) (node, error) {
	return &inline{w: w, p: p}, nil
}

func (i *inline) get(key string) error {
	e, err := i.w.Get(context.Background(), key)
	now := time.Now()
	if err == nil && !e.Alive(driver.Floor(now)) {
		err = driver.ErrNotFound
	}
	if err != nil || e.ExpiresAt >= i.p.Deadline(e.CreatedAt, driver.Ceil(now)) {
		return err
	}
	_, _, _ = i.flights.Do(key, func() (any, error) {
		i.busy.Add(1)
		defer i.busy.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), touchTimeout)
		defer cancel()
		for m := e.Meta; m.ExpiresAt < i.p.Deadline(m.CreatedAt, driver.Ceil(now)); {
			_, err := i.w.Touch(ctx, key, m, i.life(m.CreatedAt, now), driver.Floor(time.Now()))
			var conflict *driver.ConflictError
			if !errors.As(err, &conflict) {
				return nil, err
			}
			m = conflict.Found
		}
		return nil, nil
	})
	return nil // the value was read
}

func (i *inline) life(created driver.Instant, at time.Time) driver.Life {
	return driver.Life{CreatedAt: created, ExpiresAt: i.p.Expiry(created, driver.Ceil(at))}
}

func (i *inline) insert(key string) error {
	now := time.Now()
	_, err := i.w.Insert(context.Background(), key, 0, i.life(driver.Floor(now), now), driver.Floor(now))
	return err
}

func (i *inline) waiting() int { return int(i.busy.Load()) }
func (i *inline) close() error { return nil }
