package dynamodb

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// rfc3339Milli is how created_at is written.
	rfc3339Milli = "2006-01-02T15:04:05.000Z07:00"

	// A Number below maxSeconds counts seconds (until the year 5138), one from
	// there to maxMillis milliseconds. Neither is anything else.
	maxSeconds = 1e11
	maxMillis  = 1e14

	// latest is the last instant that is written.
	latest driver.Instant = maxMillis - 1000

	// longPast is what an expiry of zero or less is read as: an Instant of zero
	// would mean that there is none.
	longPast driver.Instant = 1
)

// written is created in format f.
func (f TimeFormat) written(created driver.Instant) types.AttributeValue {
	switch f {
	case UnixMilli:
		return number(strconv.FormatInt(int64(created), 10))
	case unixSecond:
		return seconds(created)
	default:
		return text(created.Time().Format(rfc3339Milli))
	}
}

// usual is how created is found in format f: as written here, or by time.Time, which
// leaves out trailing zeros.
func (f TimeFormat) usual(created driver.Instant) []types.AttributeValue {
	forms := []types.AttributeValue{f.written(created)}
	if short := created.Time().Format(time.RFC3339Nano); f == RFC3339 && short != plain(forms[0]) {
		forms = append(forms, text(short))
	}
	return forms
}

// seconds is i as a Number of seconds, exactly: Numbers are decimal.
func seconds(i driver.Instant) types.AttributeValue {
	if i%1000 == 0 {
		return number(strconv.FormatInt(int64(i)/1000, 10))
	}
	sign := ""
	if i < 0 {
		sign, i = "-", -i
	}
	return number(fmt.Sprintf("%s%d.%03d", sign, i/1000, i%1000))
}

// check rejects instants that would be read back as something else.
func (f TimeFormat) check(l driver.Life) error {
	if f == UnixMilli && 0 < l.CreatedAt && l.CreatedAt < maxSeconds {
		return &driver.InvalidError{Field: "created_at", Value: fmt.Sprintf("%d ms since 1970", l.CreatedAt), Rule: "must be later than March 1973 in UnixMilli, or it reads as seconds"}
	}
	return l.Check(latest)
}

// parseCreated reads a created_at, zero if there is none, and the format it is in.
func parseCreated(name string, av types.AttributeValue) (driver.Instant, TimeFormat, error) {
	switch av := av.(type) {
	case nil, *types.AttributeValueMemberNULL:
		return 0, RFC3339, nil
	case *types.AttributeValueMemberS:
		if av.Value == "" {
			return 0, RFC3339, nil
		}
		if t, err := time.Parse(time.RFC3339, av.Value); err == nil && (t.IsZero() || t.Unix() >= 0) {
			return driver.Floor(t), RFC3339, nil
		}
	case *types.AttributeValueMemberN:
		if i, format, _, ok := parseNumber(av.Value); ok {
			return i, format, nil
		}
	}
	return 0, RFC3339, odd(name, av, "must be RFC 3339, or a Number of seconds or milliseconds since the Unix epoch")
}

// parseExpiry reads an expiry, zero if there is none. It takes what has a plain meaning
// though DynamoDB ignores it: milliseconds, and Strings. The next touch writes it well.
func parseExpiry(name string, av types.AttributeValue) (driver.Instant, error) {
	var s string
	switch av := av.(type) {
	case nil, *types.AttributeValueMemberNULL:
		return 0, nil
	case *types.AttributeValueMemberN:
		if strings.HasPrefix(av.Value, "-") {
			return longPast, nil
		}
		s = av.Value
	case *types.AttributeValueMemberS:
		if t, err := time.Parse(time.RFC3339, av.Value); err == nil && t.Unix() < maxSeconds {
			return max(driver.Ceil(t), longPast), nil
		}
		s = av.Value
	}
	i, _, cut, ok := parseNumber(s)
	if !ok {
		return 0, odd(name, av, "must be a Number of seconds since the Unix epoch")
	}
	if cut {
		i++
	}
	return max(i, longPast), nil
}

// parseNumber reads a decimal count of seconds or milliseconds, told apart by size. cut
// reports that it was finer than milliseconds.
func parseNumber(s string) (i driver.Instant, format TimeFormat, cut, ok bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseUint(whole, 10, 64)
	if err != nil || n >= maxMillis || strings.Trim(fraction, "0123456789") != "" {
		return 0, 0, false, false
	}
	if i = driver.Instant(n); n >= maxSeconds {
		return i, UnixMilli, strings.Trim(fraction, "0") != "", true
	}
	fraction += "000"
	ms, err := strconv.ParseUint(fraction[:3], 10, 64)
	return i*1000 + driver.Instant(ms), unixSecond, strings.Trim(fraction[3:], "0") != "", err == nil
}

// odd is the error for an attribute that cannot be read. Its value is no secret; no
// more of it is quoted than an instant is long.
func odd(name string, av types.AttributeValue, rule string) error {
	const most = 40
	var value string
	switch av := av.(type) {
	case *types.AttributeValueMemberN:
		value = "the Number " + av.Value
	case *types.AttributeValueMemberS:
		value = fmt.Sprintf("the String %.*q", most, av.Value)
		if len(av.Value) > most {
			value = fmt.Sprintf("a String of %d bytes", len(av.Value))
		}
	default:
		value = "of type " + strings.TrimPrefix(fmt.Sprintf("%T", av), "*types.AttributeValueMember")
	}
	return &driver.InvalidError{Field: fmt.Sprintf("attribute %q", name), Value: value, Rule: rule}
}
