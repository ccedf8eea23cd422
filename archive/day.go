package archive

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Day is a day in UTC, counted from 1970-01-01. Zero means none.
type Day int32

// Quarantine is the Day of records that cannot be archived unchanged: see [Writer.Write].
// It comes after all days.
const Quarantine Day = math.MaxInt32

const quarantineName = "quarantine"

const dayMillis = int64(24 * time.Hour / time.Millisecond)

// DayOf returns the day in which i lies.
func DayOf(i driver.Instant) Day {
	d := int64(i) / dayMillis
	if int64(i)%dayMillis < 0 {
		d--
	}
	return Day(d)
}

func parseDay(s string) (Day, error) {
	if s == quarantineName {
		return Quarantine, nil
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, &driver.InvalidError{Field: "day", Value: strconv.Quote(s), Rule: "must be a date such as 2026-11-22"}
	}
	return DayOf(driver.Floor(t)), nil
}

// Start returns the first instant of d.
func (d Day) Start() driver.Instant { return driver.Instant(int64(d) * dayMillis) }

// String returns d as a date: 2026-11-22.
func (d Day) String() string {
	if d == Quarantine {
		return quarantineName
	}
	return d.Start().Time().Format(time.DateOnly)
}

// MarshalText implements encoding.TextMarshaler.
func (d Day) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It reads the form of String.
func (d *Day) UnmarshalText(text []byte) (err error) {
	*d, err = parseDay(string(text))
	return err
}

const (
	dayPrefix        = "day="
	quarantinePrefix = "_quarantine/" // engines that read the days skip it
)

// directory returns the prefix of the names of d's files.
func (d Day) directory() string {
	if d == Quarantine {
		return quarantinePrefix
	}
	return dayPrefix + d.String() + "/"
}

// Span is the days from From to To, both included. Zero is no bound.
type Span struct{ From, To Day }

func (s Span) has(d Day) bool { return (s.From == 0 || d >= s.From) && (s.To == 0 || d <= s.To) }

// prefix returns the longest prefix that the names of all files within s have.
func (s Span) prefix() string {
	if s.To == 0 { // s includes the quarantine, which has another prefix
		return ""
	}
	from, to := dayPrefix, s.To.directory()
	if s.From != 0 {
		from = s.From.directory()
	}
	n := 0
	for n < min(len(from), len(to)) && from[n] == to[n] {
		n++
	}
	return from[:n]
}

// dayIn returns the day and the rest of a file's name.
func dayIn(name string) (Day, string, bool) {
	dir, base, ok := strings.Cut(name, "/")
	if !ok {
		return 0, "", false
	}
	if text, ok := strings.CutPrefix(dir, dayPrefix); ok {
		d, err := parseDay(text)
		return d, base, err == nil && d != Quarantine
	}
	return Quarantine, base, dir+"/" == quarantinePrefix
}
