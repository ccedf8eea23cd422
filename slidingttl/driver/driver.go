package driver

import (
	"context"
	"time"
)

// Driver stores values of type T in the store's own format. That is a JSON document on
// Couchbase, native attributes on DynamoDB, and T itself in memory.
//
// All methods are safe for concurrent use. A driver neither keeps nor changes a
// value it was given or has handed out, except that an in-memory driver may hand
// out the very value it was given.
//
// Errors wrap [ErrNotFound] or are a [*ConflictError] where a method says so; a
// key or value that the store cannot take is an [*InvalidError] and leaves the
// store as it was; everything else is the store's own error, reachable with
// errors.As. The error of a write that may have landed although its answer did not
// come matches [ErrAmbiguous]; after any other the store is as it was. One that every
// call would meet until a setting is changed matches [ErrRefused]. No error text
// holds a key.
type Driver[T any] interface {
	// Get returns the record under key as it is stored, alive or dead. The caller checks its life.
	//
	// A record without created_at (written by another program) has a zero
	// CreatedAt, one that never expires a zero ExpiresAt. Errors: ErrNotFound.
	Get(ctx context.Context, key string) (Entry[T], error)

	// Insert creates key, or replaces a record that is dead at now. The new
	// record has life. It returns the version written.
	//
	// If there is a live record, nothing is changed and the error is a *ConflictError with its
	// Meta. A bounded store that has no room: ErrFull.
	Insert(ctx context.Context, key string, v T, life Life, now Instant) (Version, error)

	// Replace overwrites the record was with v and life, and returns the version written.
	//
	// The record must be alive at now, and its created_at, expiry and version still those
	// of was. A life.CreatedAt other than was.CreatedAt starts a new generation in place.
	//
	// If the record is gone or dead: ErrNotFound. If it is another than was: a
	// *ConflictError that carries it. Either way nothing is changed. So it is if life has ended by the
	// store's time, where the driver has that: the *ConflictError carries was, and the caller plans again.
	Replace(ctx context.Context, key string, v T, was Meta, life Life, now Instant) (Version, error)

	// Touch writes life, keeps the stored value, and returns the version then stored.
	//
	// The record must be alive at now, and its created_at, expiry and version still those
	// of was: the life may depend on the value, so it lands on no other. life.CreatedAt is
	// was.CreatedAt, or the created_at with which a record that had none is adopted, or
	// zero. Zero takes an adoption back: the store then has created_at and expiry as another
	// program keeps them, without retention; a version beside them may stay. On some stores
	// a touch changes the version. The version of a record without created_at may be zero.
	//
	// If the record is gone or dead: ErrNotFound; a touch never creates one. If
	// it is another than was: a *ConflictError that carries it. Either way
	// nothing is changed. So it is if a first or lower expiry has passed by now and not by the store's
	// time, or the reverse, where the driver has that: the *ConflictError carries was.
	Touch(ctx context.Context, key string, was Meta, life Life, now Instant) (Version, error)

	// Delete removes key, whatever its state. A key that is absent is no error.
	Delete(ctx context.Context, key string) error

	// Resolution is the step to which the store rounds an expiry: a whole
	// number of milliseconds, at least one. It never changes.
	Resolution() time.Duration
}
