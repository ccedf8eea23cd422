package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// team is a repository over a store, and what is needed to wrap it.
type team struct {
	repo   repository
	driver func(context.Context) (driver.Driver[profile], error) // over the same records
	clock  clock
	close  []func() error
}

const drivers = "couchbase, redis, cosmos, postgres or sqlite"

// open returns the team whose profiles are in a store of that name.
func open(ctx context.Context, name string) (t *team, err error) {
	t = &team{}
	switch name {
	case "couchbase":
		err = t.couchbase()
	case "redis":
		err = t.redis(ctx)
	case "cosmos":
		err = t.cosmos(ctx)
	case "postgres", "sqlite":
		err = t.sql(ctx, name)
	default:
		err = fmt.Errorf("-driver %s: must be %s", name, drivers)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close ends what open began.
func (t *team) Close() error {
	var errs []error
	for i := len(t.close) - 1; i >= 0; i-- {
		errs = append(errs, t.close[i]())
	}
	return errors.Join(errs...)
}

// clock is the time by which profiles live.
type clock interface {
	Now() time.Time
	Advance(d time.Duration)
}

// ownClock is the clock for a store whose own clock cannot be moved. Such a store still
// holds records that are dead by it; reads do not find them.
type ownClock struct{ now time.Time }

func (c *ownClock) Now() time.Time          { return c.now }
func (c *ownClock) Advance(d time.Duration) { c.now = c.now.Add(d) }
