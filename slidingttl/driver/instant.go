package driver

import (
	"math"
	"time"
)

// Instant is whole milliseconds since the Unix epoch, UTC; zero means none.
// Arithmetic stops at the ends of the range rather than wrap around.
type Instant int64

// MaxInstant is later than every instant a record can carry.
const MaxInstant Instant = math.MaxInt64

// Floor returns the last instant at or before t; zero for the zero time.
func Floor(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.UnixMilli())
}

// Ceil returns the first instant at or after t; zero for the zero time.
func Ceil(t time.Time) Instant {
	i := Floor(t)
	if i != 0 && t.Nanosecond()%int(time.Millisecond) != 0 {
		i++
	}
	return i
}

// Time returns i as a time in UTC; the zero time for zero.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(i)).UTC()
}

// Add returns i + d, with d rounded up to a millisecond.
func (i Instant) Add(d time.Duration) Instant {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	switch {
	case ms > 0 && int64(i) > math.MaxInt64-ms:
		return MaxInstant
	case ms < 0 && int64(i) < math.MinInt64-ms:
		return math.MinInt64
	}
	return i + Instant(ms)
}

// Plus returns i + d, for a d that is not negative.
func (i Instant) Plus(d Instant) Instant {
	if sum := i + d; sum >= i {
		return sum
	}
	return MaxInstant
}

// RoundUp returns the first multiple of step at or after i. A step of a
// millisecond or less changes nothing.
func (i Instant) RoundUp(step time.Duration) Instant {
	s := Instant(step / time.Millisecond)
	if s <= 1 {
		return i
	}
	switch rest := i % s; {
	case rest < 0:
		return i - rest
	case rest == 0:
		return i
	case i > MaxInstant-(s-rest):
		return MaxInstant
	default:
		return i + (s - rest)
	}
}

// Sub returns i - j, limited to the range of a duration.
func (i Instant) Sub(j Instant) time.Duration {
	const most = Instant(math.MaxInt64 / int64(time.Millisecond))
	d := i - j
	switch {
	case i > j && (d < 0 || d > most):
		return math.MaxInt64
	case i < j && (d > 0 || d < -most):
		return math.MinInt64
	}
	return time.Duration(d) * time.Millisecond
}
