package kit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// RFC3339Milli is the form in which drivers write an instant as text. It is in UTC with three
// decimals, so that texts sort as the instants do.
const RFC3339Milli = "2006-01-02T15:04:05.000Z07:00"

// Below NumberSeconds a number counts seconds since the Unix epoch, until the year 5138. From
// there and below NumberMillis it counts milliseconds. A larger number is no instant.
const (
	NumberSeconds = 1e11
	NumberMillis  = 1e14
)

// ParseNumber reads a decimal number of seconds or milliseconds, as its size tells. millis
// reports that it counts milliseconds, finer that a part below a millisecond was cut off, and ok
// that it is an instant at all.
func ParseNumber(text string) (i driver.Instant, millis, finer, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseUint(whole, 10, 64)
	if err != nil || n >= NumberMillis || strings.Trim(fraction, "0123456789") != "" {
		return 0, false, false, false
	}
	if i = driver.Instant(n); n >= NumberSeconds {
		return i, true, strings.Trim(fraction, "0") != "", true
	}
	fraction += "000"
	ms, err := strconv.ParseUint(fraction[:3], 10, 64)
	return i*1000 + driver.Instant(ms), false, strings.Trim(fraction[3:], "0") != "", err == nil
}

// Odd is the error for a field whose value, of type kind, is not what a driver expects. It
// quotes at most the length of an instant, because a longer text may be a secret.
func Odd(field, kind, text, rule string) error {
	const most = 40
	value := "of type " + kind
	switch {
	case kind == "Number":
		value = "the Number " + text
	case kind == "String" && len(text) > most:
		value = fmt.Sprintf("a String of %d bytes", len(text))
	case kind == "String":
		value = fmt.Sprintf("the String %q", text)
	}
	return &driver.InvalidError{Field: field, Value: value, Rule: rule}
}

// ParseTime reads RFC 3339 in any zone and rounds it to milliseconds, up or down. The time must
// be in 1970 or later, or zero.
func ParseTime(text string, up bool) (driver.Instant, bool) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || !t.IsZero() && t.Unix() < 0 {
		return 0, false
	}
	if up {
		return driver.Ceil(t), true
	}
	return driver.Floor(t), true
}
