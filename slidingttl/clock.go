package slidingttl

import (
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

// clockOf returns the clock of a store over d, and how far it may be apart from that of
// another process where the options, now and skew, leave that open.
func clockOf[T any](d driver.Driver[T], now func() time.Time, skew time.Duration, local bool) (driver.Clock, time.Duration) {
	own, ok := driver.As[driver.Clock](d)
	ok = ok && now == nil
	switch {
	case skew != 0:
	case ok && local:
		skew = d.Resolution()
	case ok:
		skew = max(d.Resolution(), serverSkew)
	default:
		skew = defaultMaxSkew
	}
	switch {
	case ok:
		return own, skew
	case now != nil:
		return systemClock(now), skew
	}
	return systemClock(time.Now), skew
}

// learn has the clock know the time before a write is planned by it.
func (s *Store[T]) learn(ctx context.Context) error {
	if s.learner == nil {
		return nil
	}
	return s.learner.Learn(ctx)
}
