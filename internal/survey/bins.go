package survey

import (
	"sort"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const day = 24 * time.Hour

// edges end the bins of a histogram of deaths.
var edges = [...]struct {
	within time.Duration
	name   string
}{
	{time.Minute, "1m"}, {10 * time.Minute, "10m"}, {time.Hour, "1h"}, {6 * time.Hour, "6h"},
	{day, "1d"}, {2 * day, "2d"}, {3 * day, "3d"}, {5 * day, "5d"}, {7 * day, "7d"}, {10 * day, "10d"},
	{14 * day, "14d"}, {21 * day, "21d"}, {30 * day, "30d"}, {45 * day, "45d"}, {60 * day, "60d"},
	{75 * day, "75d"}, {90 * day, "90d"}, {120 * day, "120d"}, {180 * day, "180d"}, {365 * day, "365d"},
	{0, "later"}, {0, "never"},
}

const (
	bins  = len(edges)
	never = bins - 1
	later = bins - 2
)

// binOf returns the bin of a record that dies at death.
func binOf(death, now driver.Instant) int {
	if death == driver.MaxInstant {
		return never
	}
	left := death.Sub(now)
	return sort.Search(later, func(i int) bool { return left <= edges[i].within })
}
