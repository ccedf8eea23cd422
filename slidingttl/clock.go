package slidingttl

import (
	"cmp"
	"context"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// systemClock is the clock of a store whose driver has none.
type systemClock func() time.Time

func (s systemClock) Now() time.Time { return s() }

func (s systemClock) Bounds() (earliest, latest driver.Instant) {
	now := s()
	return driver.Floor(now), driver.Ceil(now)
}

// clockOf returns the clock of a store over d, and how far it may be apart from other processes'
// clocks. now and skew are its options.
func clockOf[T any](d driver.Driver[T], now func() time.Time, skew time.Duration, local bool) (driver.Clock, time.Duration) {
	if now != nil {
		return systemClock(now), cmp.Or(skew, defaultMaxSkew)
	}
	own, ok := driver.As[driver.Clock](d)
	switch {
	case !ok:
		return systemClock(time.Now), cmp.Or(skew, defaultMaxSkew)
	case local:
		return own, cmp.Or(skew, d.Resolution())
	}
	return own, cmp.Or(skew, max(d.Resolution(), serverSkew))
}

// mayWrite is called before a write is planned. It makes the clock learn the time, and returns
// ErrClosed once Close has given up the calls under way.
func (s *Store[T]) mayWrite(ctx context.Context) error {
	if s.learner != nil {
		if err := s.learner.Learn(ctx); err != nil {
			return err
		}
	}
	return s.touches.Closed()
}

// planned returns the context of a driver's write that is planned by the store's clock.
func (s *Store[T]) planned(ctx context.Context) context.Context {
	if s.otherClock {
		return driver.WithOtherClock(ctx)
	}
	return ctx
}
