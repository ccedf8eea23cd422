package upkeep

import (
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// earliest is 1990 in milliseconds, before any record. Today's time in seconds is far below it,
// and in microseconds far beyond the present.
const earliest driver.Instant = 631_152_000_000

// Unit is a unit of time in which a program may have written created_at instead of
// milliseconds.
type Unit string

// The units that can be recognised.
const (
	Seconds Unit = "seconds"
	Micros  Unit = "micros"
	Nanos   Unit = "nanos"
)

var timeUnits = []Unit{Seconds, Micros, Nanos}

// millis converts at from u to milliseconds.
func (u Unit) millis(at driver.Instant) driver.Instant {
	switch u {
	case Seconds:
		return at * 1000
	case Micros:
		return at / 1000
	case Nanos:
		return at / 1_000_000
	}
	return 0
}

// unitOf returns the unit in which at is a time between 1990 and last, empty if there is none.
func unitOf(at, last driver.Instant) Unit {
	for _, u := range timeUnits {
		if at < earliest != (u == Seconds) {
			continue
		}
		if ms := u.millis(at); at > 0 && ms >= earliest && ms <= last {
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
func Doubt(l driver.Life, last driver.Instant) (what string, created Unit) {
	switch {
	case l.CreatedAt != 0 && (l.CreatedAt < earliest || l.CreatedAt > last):
		if u := unitOf(l.CreatedAt, last); u != "" {
			return "created_at looks like a number of " + string(u), u
		}
		return "created_at is before 1990 or in the future", ""
	case l.ExpiresAt != 0 && l.ExpiresAt < earliest && Seconds.millis(l.ExpiresAt) >= earliest:
		return "expires_at looks like a number of " + string(Seconds), ""
	}
	return "", ""
}

// implausible is what Doubt finds in l at now, when clocks may be apart by j.skew.
func (j *judge) implausible(l driver.Life, now driver.Instant) string {
	what, _ := Doubt(l, now.Plus(j.skew))
	return what
}
