package driver

import (
	"context"
	"time"
)

// Access has the numbers that decide whether a touch is due, and what it writes.
type Access struct {
	At      Instant       // when
	Keep    Instant       // how long after At the record must stay readable
	Stored  Instant       // how long after At the expiry is that a touch writes
	Most    Instant       // how long after created_at the record is dead, whatever its expiry
	Promote bool          // a touch writes the cap
	Step    time.Duration // the store's resolution, to which expiries are rounded up
}

// Touch returns the life that the access writes over l, and false if it writes nothing.
//
// It writes nothing if l lasts long enough, is past its cap, or has no created_at or expiry. It
// only moves an expiry forward.
func (a Access) Touch(l Life) (Life, bool) {
	limit := l.CreatedAt.Plus(a.Most)
	keep, stored := a.Until()
	if l.CreatedAt == 0 || l.ExpiresAt == 0 || l.ExpiresAt >= min(keep, limit) {
		return l, false
	}
	l.ExpiresAt = min(stored, limit).RoundUp(a.Step)
	return l, true
}

// Until returns until when a record must last, and the expiry that a touch writes. Both may
// lie past the record's cap.
func (a Access) Until() (keep, stored Instant) {
	if a.Promote {
		return a.At.Plus(a.Keep), MaxInstant
	}
	return a.At.Plus(a.Keep), a.At.Plus(a.Stored)
}

// ReadToucher is a driver that can read a record and touch it in one wait.
//
// Either its server decides whether the touch is due, or the driver sends the read together with a
// touch planned from known.
type ReadToucher[T any] interface {
	Driver[T]

	// ReadTouch is Get, and touches the record as a.Touch says if it is alive at now.
	//
	// known is what the caller remembers of the record, or nil; it may be out of date. A driver
	// whose server does not decide plans the touch from known, and only reads if it is nil.
	//
	// It returns the record as it is then stored; touched says that this call wrote it. A failed
	// touch is no error: the record is returned as it was read, and the caller touches it. A value
	// is never returned with another version's life. Errors: ErrNotFound.
	ReadTouch(ctx context.Context, key string, known *Meta, a Access, now Instant) (e Entry[T], touched bool, err error)
}
