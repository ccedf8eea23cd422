package verdict

import "github.com/slidingttl/slidingttl/slidingttl/driver"

// Earliest is 1990 in milliseconds, before any record. Today's time in seconds is far below it,
// and in microseconds far beyond the present.
const Earliest driver.Instant = 631_152_000_000

// Units are the units of time in which a program may have written created_at instead of milliseconds,
// and which can be recognised.
var Units = []string{seconds, micros, nanos}

const (
	seconds = "seconds"
	micros  = "micros"
	nanos   = "nanos"
)

// Millis converts at from a unit to milliseconds.
func Millis(unit string, at driver.Instant) driver.Instant {
	switch unit {
	case seconds:
		return at * 1000
	case micros:
		return at / 1000
	case nanos:
		return at / 1_000_000
	}
	return 0
}

// unitOf returns the unit in which at is a time between 1990 and last, empty if there is none.
func unitOf(at, last driver.Instant) string {
	for _, u := range Units {
		if at < Earliest != (u == seconds) {
			continue
		}
		if ms := Millis(u, at); at > 0 && ms >= Earliest && ms <= last {
			return u
		}
	}
	return ""
}

// Doubt returns what is implausible about l, and the unit in which created_at would make sense.
//
// The words are the same for all such records. Both are empty where there is nothing to return. A
// created_at is implausible if it is before 1990 or after last. An expiry is implausible if it makes
// sense in seconds only.
func Doubt(l driver.Life, last driver.Instant) (what, created string) {
	switch {
	case l.CreatedAt != 0 && (l.CreatedAt < Earliest || l.CreatedAt > last):
		if u := unitOf(l.CreatedAt, last); u != "" {
			return "created_at looks like a number of " + u, u
		}
		return "created_at is before 1990 or in the future", ""
	case l.ExpiresAt != 0 && l.ExpiresAt < Earliest && Millis(seconds, l.ExpiresAt) >= Earliest:
		return "expires_at looks like a number of " + seconds, ""
	}
	return "", ""
}

// Implausible is what Doubt finds in l at now, when clocks may be apart by j.Skew.
func (j *Judge) Implausible(l driver.Life, now driver.Instant) string {
	what, _ := Doubt(l, now.Plus(j.Skew))
	return what
}
