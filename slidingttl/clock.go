package slidingttl

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// system is the clock of a store whose driver has none.
type system func() time.Time

func (s system) Now() time.Time { return s() }

func (s system) Bounds() (earliest, latest driver.Instant) {
	now := s()
	return driver.Floor(now), driver.Ceil(now)
}
