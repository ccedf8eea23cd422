package dynamodb

import (
	"fmt"
	"math/big"
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

	// longPast is what an expiry of zero or less is read as: an Instant of zero
	// would mean that there is none.
	longPast driver.Instant = 1
)

// canonical is created as it is written.
func (f TimeFormat) canonical(created driver.Instant) types.AttributeValue {
	if f == UnixMilli {
		return number(strconv.FormatInt(int64(created), 10))
	}
	return text(time.UnixMilli(int64(created)).UTC().Format(rfc3339Milli))
}

// usual is the forms in which created_at is compared in one request.
func usual(created driver.Instant) []types.AttributeValue {
	forms := []types.AttributeValue{RFC3339.canonical(created)}
	if created >= maxSeconds {
		forms = append(forms, UnixMilli.canonical(created))
	}
	t := time.UnixMilli(int64(created)).UTC()
	if s := t.Format(time.RFC3339Nano); len(s) != len(rfc3339Milli)-len("07:00") {
		forms = append(forms, text(s)) // fewer decimals, as time.Time is marshalled
	}
	if created%1000 == 0 {
		forms = append(forms, number(strconv.FormatInt(int64(created)/1000, 10)))
	}
	return forms
}

// wholeSeconds is an expiry as it is written: never earlier than i.
func wholeSeconds(i driver.Instant) types.AttributeValue {
	return number(strconv.FormatInt(int64(i.RoundUp(time.Second))/1000, 10))
}

// seconds is i to compare an expiry with, exactly: Numbers are decimal.
func seconds(i driver.Instant) types.AttributeValue {
	s, ms := int64(i)/1000, int64(i)%1000
	switch {
	case ms == 0:
		return number(strconv.FormatInt(s, 10))
	case i > 0:
		return number(fmt.Sprintf("%d.%03d", s, ms))
	default:
		return number(fmt.Sprintf("-%d.%03d", -s, -ms))
	}
}

// check rejects instants that would be read back as something else.
func (f TimeFormat) check(l driver.Life) error {
	invalid := func(field string, i driver.Instant, rule string) error {
		return &driver.InvalidError{Field: field, Value: fmt.Sprintf("%d ms since 1970", i), Rule: rule}
	}
	const latest = maxMillis - 1000
	switch {
	case l.CreatedAt < 0 || l.CreatedAt > latest:
		return invalid("created_at", l.CreatedAt, "must be between the years 1970 and 5138")
	case f == UnixMilli && l.CreatedAt != 0 && l.CreatedAt < maxSeconds:
		return invalid("created_at", l.CreatedAt, "must be later than March 1973 in UnixMilli, or it reads as seconds")
	case l.ExpiresAt < 0 || l.ExpiresAt > latest:
		return invalid("expiry", l.ExpiresAt, "must be between the years 1970 and 5138")
	}
	return nil
}

// parseCreated reads a created_at; zero if there is none.
func parseCreated(name string, av types.AttributeValue) (driver.Instant, error) {
	switch av := av.(type) {
	case nil, *types.AttributeValueMemberNULL:
		return 0, nil
	case *types.AttributeValueMemberS:
		if av.Value == "" {
			return 0, nil
		}
		if t, err := time.Parse(time.RFC3339, av.Value); err == nil && (t.IsZero() || t.Unix() >= 0) {
			return driver.Floor(t), nil
		}
	case *types.AttributeValueMemberN:
		if ms, ok := parseMillis(av.Value, floorRat); ok && ms >= 0 {
			return ms, nil
		}
	}
	return 0, odd(name, av, "must be RFC 3339, or a Number of seconds or milliseconds since the Unix epoch")
}

// parseExpiry reads an expiry; zero if there is none. mend says that DynamoDB does
// not read it so, which is an error unless repair is set.
func parseExpiry(name string, av types.AttributeValue, repair bool) (i driver.Instant, mend bool, err error) {
	const rule = "must be a Number of whole seconds since the Unix epoch, or DynamoDB never deletes the item; see Options.Repair"
	ok := false
	switch av := av.(type) {
	case nil, *types.AttributeValueMemberNULL:
		return 0, false, nil
	case *types.AttributeValueMemberN:
		i, ok = parseMillis(av.Value, ceilRat)
		mend = !below(av.Value, maxSeconds)
	case *types.AttributeValueMemberS:
		mend = true
		if i, ok = parseMillis(av.Value, ceilRat); !ok {
			t, terr := time.Parse(time.RFC3339, av.Value)
			i, ok = driver.Ceil(t), terr == nil && t.Unix() < maxSeconds
		}
	}
	if !ok || mend && !repair {
		return 0, false, odd(name, av, rule)
	}
	return max(i, longPast), mend, nil
}

// parseMillis reads a decimal count of seconds or milliseconds, told apart by size.
// What is finer than a millisecond is for round to decide.
func parseMillis(s string, round func(*big.Rat) int64) (driver.Instant, bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		switch {
		case n <= -maxSeconds || n >= maxMillis:
			return 0, false
		case n < maxSeconds:
			n *= 1000
		}
		return driver.Instant(n), true
	}
	r, ok := parseRat(s)
	if !ok || r.Cmp(big.NewRat(-maxSeconds, 1)) <= 0 || r.Cmp(big.NewRat(maxMillis, 1)) >= 0 {
		return 0, false
	}
	if r.Cmp(big.NewRat(maxSeconds, 1)) < 0 {
		r.Mul(r, big.NewRat(1000, 1))
	}
	return driver.Instant(round(r)), true
}

// below reports whether the Number s is less than n.
func below(s string, n int64) bool {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i < n
	}
	r, ok := parseRat(s)
	return ok && r.Cmp(big.NewRat(n, 1)) < 0
}

// parseRat reads a decimal number, with an exponent or without, as long as a Number
// can be.
func parseRat(s string) (*big.Rat, bool) {
	const longest = 200
	if len(s) > longest {
		return nil, false
	}
	for _, c := range s {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return nil, false
		}
	}
	if f, err := strconv.ParseFloat(s, 64); err != nil || f > 1e18 || f < -1e18 {
		return nil, false // before a large exponent costs memory
	}
	return new(big.Rat).SetString(s)
}

func floorRat(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func ceilRat(r *big.Rat) int64 {
	n := new(big.Int).Neg(r.Num())
	return n.Neg(n.Div(n, r.Denom())).Int64()
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
