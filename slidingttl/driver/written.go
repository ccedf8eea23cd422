package driver

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// RFC3339Milli is the form in which drivers write an instant as text: in UTC and with three
// decimals, so that texts sort as the instants do.
const RFC3339Milli = "2006-01-02T15:04:05.000Z07:00"

// A number of up to NumberSeconds counts seconds since the Unix epoch (until the year 5138), one
// from there and below NumberMillis milliseconds. Neither is anything else.
const (
	NumberSeconds = 1e11
	NumberMillis  = 1e14
)

// ParseNumber reads a decimal number of seconds or milliseconds, told apart by its size, and
// reports which it is, whether it was finer than a millisecond, which is rounded down, and
// whether it is such a number at all.
func ParseNumber(text string) (i Instant, millis, finer, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseUint(whole, 10, 64)
	if err != nil || n >= NumberMillis || strings.Trim(fraction, "0123456789") != "" {
		return 0, false, false, false
	}
	if i = Instant(n); n >= NumberSeconds {
		return i, true, strings.Trim(fraction, "0") != "", true
	}
	fraction += "000"
	ms, err := strconv.ParseUint(fraction[:3], 10, 64)
	return i*1000 + Instant(ms), false, strings.Trim(fraction[3:], "0") != "", err == nil
}

// Odd is the error for a field that has a number, a string or something else (of type kind) where
// a driver expects another. It quotes no more than an instant is long: what is longer may be a secret.
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
	return &InvalidError{Field: field, Value: value, Rule: rule}
}

// ParseTime reads RFC 3339 in any zone, from 1970 on or the zero time, and rounds down to
// milliseconds, or up.
func ParseTime(text string, up bool) (Instant, bool) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || !t.IsZero() && t.Unix() < 0 {
		return 0, false
	}
	if up {
		return Ceil(t), true
	}
	return Floor(t), true
}
