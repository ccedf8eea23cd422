package kit

import (
	"math/rand/v2"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// NewVersion draws a version from 1 to most. A counter kept in the record would restart with it
// and reach the same number twice.
func NewVersion(most driver.Version) driver.Version {
	return driver.Version(rand.Uint64N(uint64(most))) + 1
}
