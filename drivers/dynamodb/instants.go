package dynamodb

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// latest is the last instant that can be written.
	latest driver.Instant = kit.NumberMillis - 1000

	// longPast replaces an expiry of zero or less, because an Instant of zero means none.
	longPast driver.Instant = 1
)

// written returns created in format f.
func (f TimeFormat) written(created driver.Instant) types.AttributeValue {
	switch f {
	case UnixMilli:
		return number(strconv.FormatInt(int64(created), 10))
	case unixSecond:
		return seconds(created)
	default:
		return text(created.Time().Format(kit.RFC3339Milli))
	}
}

// usual returns the usual forms of created in format f: as written here, or by time.Time, which
// omits trailing zeros.
func (f TimeFormat) usual(created driver.Instant) []types.AttributeValue {
	forms := []types.AttributeValue{f.written(created)}
	if short := created.Time().Format(time.RFC3339Nano); f == RFC3339 && short != plain(forms[0]) {
		forms = append(forms, text(short))
	}
	return forms
}

// seconds returns i as a Number of seconds. Numbers are decimal, so it is exact.
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

// check rejects instants that would be read back differently.
func (f TimeFormat) check(l driver.Life) error {
	if f == UnixMilli && 0 < l.CreatedAt && l.CreatedAt < kit.NumberSeconds {
		return &driver.InvalidError{Field: "created_at", Value: fmt.Sprintf("%d ms since 1970", l.CreatedAt), Rule: "must be later than March 1973 in UnixMilli: an earlier one would be read as seconds"}
	}
	return l.Check(latest)
}

// parseCreated reads a created_at, zero for none, and its format.
func parseCreated(name string, av types.AttributeValue) (driver.Instant, TimeFormat, error) {
	switch av := av.(type) {
	case nil, *types.AttributeValueMemberNULL:
		return 0, RFC3339, nil
	case *types.AttributeValueMemberS:
		if av.Value == "" {
			return 0, RFC3339, nil
		}
		if i, ok := kit.ParseTime(av.Value, false); ok {
			return i, RFC3339, nil
		}
	case *types.AttributeValueMemberN:
		if i, millis, _, ok := kit.ParseNumber(av.Value); millis {
			return i, UnixMilli, nil
		} else if ok {
			return i, unixSecond, nil
		}
	}
	return 0, RFC3339, odd(name, av, "must be RFC 3339, or a Number of seconds or milliseconds since the Unix epoch")
}

// parseExpiry reads an expiry, zero for none. It also reads clear forms that DynamoDB ignores,
// milliseconds and Strings; the next touch corrects them.
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
		if t, err := time.Parse(time.RFC3339, av.Value); err == nil && t.Unix() < kit.NumberSeconds {
			return max(driver.Ceil(t), longPast), nil
		}
		s = av.Value
	}
	i, _, cut, ok := kit.ParseNumber(s)
	if !ok {
		return 0, odd(name, av, "must be a Number of seconds since the Unix epoch")
	}
	if cut {
		i++
	}
	return max(i, longPast), nil
}

// odd is the error for an attribute that cannot be read.
func odd(name string, av types.AttributeValue, rule string) error {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", av), "*types.AttributeValueMember")
	return kit.Odd(fmt.Sprintf("attribute %q", name), cmp.Or(map[string]string{"N": "Number", "S": "String"}[kind], kind), plain(av), rule)
}
