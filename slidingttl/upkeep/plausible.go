package upkeep

import (
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// earliest is before any record that a store holds: 1990, in milliseconds. Seconds of today
// are far below, microseconds far beyond what is now.
const earliest driver.Instant = 631_152_000_000

// Unit is a unit of time in which a program may have written created_at instead of
// milliseconds.
type Unit string

// The units that are told apart.
const (
	Seconds Unit = "seconds"
	Micros  Unit = "micros"
	Nanos   Unit = "nanos"
)

var units = []Unit{Seconds, Micros, Nanos}

// millis is at, taken to be in u.
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

// unitOf is the unit in which at is a time between 1990 and last; empty: in none.
func unitOf(at, last driver.Instant) Unit {
	for _, u := range units {
		if at < earliest != (u == Seconds) {
			continue
		}
		if ms := u.millis(at); at > 0 && ms >= earliest && ms <= last {
			return u
		}
	}
	return ""
}

// implausible says what of l cannot be, in the same words for all such records; empty:
// nothing. A created_at is, that is earlier than 1990 or further ahead than clocks are
// apart; and an expiry that is of our time in seconds, and else long past.
func (j *judge) implausible(l driver.Life, now driver.Instant) string {
	last := plus(now, j.skew)
	switch {
	case l.CreatedAt != 0 && (l.CreatedAt < earliest || l.CreatedAt > last):
		if u := unitOf(l.CreatedAt, last); u != "" {
			return "created_at is as if in " + string(u)
		}
		return "created_at is no time that has been"
	case l.ExpiresAt != 0 && l.ExpiresAt < earliest && Seconds.millis(l.ExpiresAt) >= earliest:
		return "expires_at is as if in " + string(Seconds)
	}
	return ""
}
