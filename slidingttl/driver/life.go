package driver

import "fmt"

// Life is when a record was created and when it expires.
type Life struct {
	CreatedAt Instant // zero: the record carries none
	ExpiresAt Instant // zero: the record never expires by itself
}

// Alive reports whether the expiry is after now. Only a policy knows the cap.
func (l Life) Alive(now Instant) bool {
	return l.ExpiresAt == 0 || l.ExpiresAt > now
}

// Check returns an *InvalidError if an instant of l is before 1970 or after latest.
func (l Life) Check(latest Instant) error {
	for _, f := range []struct {
		field string
		at    Instant
	}{{"created_at", l.CreatedAt}, {"expiry", l.ExpiresAt}} {
		if f.at < 0 || f.at > latest {
			return &InvalidError{
				Field: f.field,
				Value: fmt.Sprintf("%d ms since 1970", f.at),
				Rule:  fmt.Sprintf("must be between the years 1970 and %d", latest.Time().Year()),
			}
		}
	}
	return nil
}

// Version is a store's mark of a record's content, opaque but for equality.
//
// It changes with every write of the value, and on some stores with a touch. Versions of
// different keys or generations do not compare.
type Version uint64

// Meta is what a store knows of a record beside its value.
type Meta struct {
	Life
	Version Version
}

// Entry is a record as it was read.
type Entry[T any] struct {
	Value T
	Meta
}
