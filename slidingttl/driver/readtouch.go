package driver

import (
	"context"
	"time"
)

// Access has the numbers that decide whether an access needs a touch, and what that writes.
type Access struct {
	At      Instant       // when
	Keep    Instant       // how long after At the record must stay readable
	Stored  Instant       // how long after At a touch makes it last
	Most    Instant       // how long after created_at the record is dead, whatever its expiry
	Promote bool          // a touch makes it last to the end of Most
	Step    time.Duration // the store's resolution, to which expiries are rounded up
}

// Touch returns the life that the access writes over l, and false if it writes nothing.
//
// It writes nothing where l keeps its promise, is past its cap, or has no created_at or
// expiry. It moves an expiry forward only.
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
// Its server decides whether the touch is due, or the read and a touch that is planned from
// what is remembered are sent together.
type ReadToucher[T any] interface {
	Driver[T]

	// ReadTouch is Get, and touches the record as a.Touch says if it is alive at now.
	//
	// known is what the caller remembers of the record, nil if nothing; it may be out of
	// date. A driver whose server does not decide plans the touch from known, and without
	// it only reads.
	//
	// The record comes back as it is stored then, with touched set if this call
	// wrote it. A touch that could not be made is no error: the record comes back
	// as it was read, and the caller touches it by other means. A value is never
	// returned with the life of another. Errors: ErrNotFound.
	ReadTouch(ctx context.Context, key string, known *Meta, a Access, now Instant) (e Entry[T], touched bool, err error)
}
