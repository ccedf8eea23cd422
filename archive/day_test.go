package archive_test

import (
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A day has all its instants in UTC, before 1970 as well.
func TestDayOf(t *testing.T) {
	for _, from := range []time.Time{time.Unix(0, 0).UTC(), noon} {
		for n := range 800 {
			start := from.Truncate(24*time.Hour).AddDate(0, 0, n-400)
			if start.Unix() == 0 { // Day zero is none
				continue
			}
			for _, within := range []time.Duration{0, time.Millisecond, 24*time.Hour - time.Millisecond} {
				at := start.Add(within)
				if d := archive.DayOf(driver.Floor(at)); d.String() != at.Format(time.DateOnly) || d.Start() != driver.Floor(start) {
					t.Fatalf("%v lies in %v, which starts at %v", at, d, d.Start().Time())
				}
			}
		}
	}
}
