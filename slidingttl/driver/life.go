package driver

// Life is when a record was created and when it expires.
type Life struct {
	CreatedAt Instant // zero: the record carries none
	ExpiresAt Instant // zero: the record never expires by itself
}

// Alive reports whether the expiry of a record with this life is still to come
// at now. It does not look at the cap, which only a policy knows.
func (l Life) Alive(now Instant) bool {
	return l.ExpiresAt == 0 || l.ExpiresAt > now
}

// Version is a store's mark of a record's content, opaque but for equality. It
// changes with every write of the value, and on some stores with a touch.
// Versions of different keys or generations do not compare.
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
