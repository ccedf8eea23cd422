package upkeep

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/internal/field"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Record is a record to adopt.
type Record struct {
	Key string
	driver.Meta
	raw driver.RawReader
}

// Raw reads the record in the store's own form. If the driver cannot, it returns an
// *InvalidError.
func (r Record) Raw(ctx context.Context) (driver.Raw, error) {
	if r.raw == nil {
		return driver.Raw{}, invalid("driver", "no driver.RawReader", "is required by a rule that reads the record")
	}
	return r.raw.Raw(ctx, r.Key)
}

// Origin is a rule for the created_at of records that have none.
type Origin struct {
	// Name identifies the rule and its arguments, because a checkpoint is valid for one
	// rule only. Required with Created.
	Name string

	// Created returns a record's created_at, and false if it does not know it. It must be
	// safe for concurrent use. Nil: there is no rule.
	Created func(ctx context.Context, r Record) (created driver.Instant, known bool, err error)
}

// FromExpiry derives created_at as the expiry minus ttl. It is for records that were written with
// one fixed time to live.
func FromExpiry(ttl time.Duration) Origin {
	return Origin{"expiry less " + ttl.String(), func(_ context.Context, r Record) (driver.Instant, bool, error) {
		return r.ExpiresAt.Add(-ttl), r.ExpiresAt != 0, nil
	}}
}

// FromField takes created_at from the record's field of that name. This is one of
// driver.Raw.Fields (such as an extended attribute), else a field of its value, where
// "meta.created" is created in meta. The driver must be a driver.RawReader. Text is read as
// RFC 3339, a number as seconds since 1970, or from 100,000,000,000 on as milliseconds. It
// costs a read for each record that is to be adopted.
func FromField(name string) Origin {
	return Origin{"field " + name, func(ctx context.Context, r Record) (driver.Instant, bool, error) {
		raw, err := r.Raw(ctx)
		if err != nil {
			return 0, false, err
		}
		if text, ok := raw.Fields[name]; ok {
			at, ok := instant(strings.Trim(text, `"`))
			return at, ok, nil
		}
		text, ok := field.Text(raw.Value, name)
		if !ok {
			return 0, false, nil
		}
		at, ok := instant(text)
		return at, ok, nil
	}}
}

// instant reads an instant, later than 1970.
func instant(text string) (driver.Instant, bool) {
	const fewestMillis = 1e11
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return driver.Floor(t), t.UnixMilli() > 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0 && n < 1e14) {
		return 0, false
	}
	if n < fewestMillis {
		n *= 1000
	}
	return driver.Instant(n), true
}
