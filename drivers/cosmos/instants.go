package cosmos

import (
	"fmt"
	"math"
	"time"

	"github.com/tidwall/gjson"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// rfc3339Milli is how instants are written.
	rfc3339Milli = "2006-01-02T15:04:05.000Z07:00"

	// A Number below maxSeconds counts seconds (until the year 5138), one from there to
	// maxMillis milliseconds. Neither is anything else.
	maxSeconds = 1e11
	maxMillis  = 1e14

	// latest is the last instant that is written: in the year 9999.
	latest driver.Instant = 253402300799999

	// maxTTL is Cosmos DB's limit, of 68 years.
	maxTTL = math.MaxInt32
)

// written is i as it is written.
func written(i driver.Instant) string { return i.Time().Format(rfc3339Milli) }

// ttl is what is written beside l by a call that began at now: the service must not remove
// the item before MaxSkew after its expiry and Retain. It counts from the second, rounded down, in which
// it carries the write out, which is at now or later. -1 means never, as does what is too far.
func (o *Options) ttl(l driver.Life, now driver.Instant) int64 {
	if l.ExpiresAt == 0 {
		return -1
	}
	left := l.ExpiresAt.Add(o.Retain).Add(o.MaxSkew).Sub(now)
	seconds := max(int64(math.Ceil(left.Seconds()))+1, 1)
	if seconds > maxTTL {
		return -1
	}
	return seconds
}

// parseInstant reads an instant, zero if there is none: RFC 3339 in any zone, or a Number of
// seconds or milliseconds. up says that one finer than milliseconds is rounded up, not down.
func parseInstant(name string, v gjson.Result, up bool) (driver.Instant, error) {
	round := driver.Floor
	if up {
		round = driver.Ceil
	}
	switch v.Type {
	case gjson.Null: // or absent
		return 0, nil
	case gjson.String:
		if v.Str == "" {
			return 0, nil
		}
		if t, err := time.Parse(time.RFC3339, v.Str); err == nil && (t.IsZero() || t.Unix() >= 0) {
			return round(t), nil
		}
	case gjson.Number:
		ms := v.Num
		if ms < maxSeconds {
			ms *= 1000
		}
		if v.Num >= 0 && v.Num < maxMillis {
			if ms = math.Round(ms*1000) / 1000; up { // a float64 of seconds is good to less than a microsecond
				return driver.Instant(math.Ceil(ms)), nil
			}
			return driver.Instant(math.Floor(ms)), nil
		}
	}
	return 0, odd(name, v, "must be RFC 3339, or a Number of seconds or milliseconds since the Unix epoch")
}

// odd is the error for a property that cannot be read. Its value is no secret; no more of it
// is quoted than an instant is long.
func odd(name string, v gjson.Result, rule string) error {
	const most = 40
	value := "of type " + v.Type.String()
	switch v.Type {
	case gjson.Number:
		value = fmt.Sprintf("the Number %v", v.Num)
	case gjson.String:
		value = fmt.Sprintf("the String %.*q", most, v.Str)
		if len(v.Str) > most {
			value = fmt.Sprintf("a String of %d bytes", len(v.Str))
		}
	}
	return &driver.InvalidError{Field: fmt.Sprintf("property %q", name), Value: value, Rule: rule}
}
