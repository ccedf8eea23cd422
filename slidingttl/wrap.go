package slidingttl

import (
	"context"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Repository is the part of an existing repository that Wrap needs.
type Repository[K, V any] interface {
	// Get returns the value under id, or the repository's own error.
	Get(ctx context.Context, id K) (V, error)
	// Upsert writes v under id, over whatever is there.
	Upsert(ctx context.Context, id K, v V) error
}

// WrapOptions adjusts Wrap. The zero value, and a nil pointer, mean the defaults.
type WrapOptions[V any] struct {
	// CreatedAt returns the creation time in a value, zero if that is unknown. It is used if the
	// stored record has none, mostly after an Upsert that wrote the whole record. Nil: created_at
	// comes from the store only.
	CreatedAt func(V) time.Time

	// NotFound is the repository's error for a value that is absent. The error for one that
	// is dead, but not yet removed, then matches it as well as ErrNotFound. Nil: ErrNotFound
	// alone.
	NotFound error
}

// Wrapped is a repository whose records slide, and is a Repository itself.
//
// It is safe for concurrent use if the wrapped one is.
type Wrapped[K comparable, V, T any] struct {
	repo Repository[K, V]
	s    *Store[T]
	key  func(K) string
	opts WrapOptions[V]
}

// Wrap gives the records of repo a sliding expiry, for teams that keep their own repository.
//
// s is a store over the same records: key turns an id into the key under which repo keeps it
// there. Only life is read and written through s, never a value. opts may be nil. Close of s
// waits for the calls of the wrapped repository too.
//
// A value and its expiry are then read, and written, by two calls instead of one, so less can
// be promised than with the Store's own Get and Upsert:
//
//   - Get promises what Store.Get does. A value that the repository still returns although
//     its record is dead is not found. A read whose touch is not due mostly costs no second
//     trip, for what the store last said of a key is remembered: what another process writes
//     past its wrapper is noticed when the remembered expiry comes due.
//   - Upsert writes the value first and its expiry next, after its context has ended too, for 64 at
//     once: a touch that is not made then counts as failed. Between the two the record has the expiry that the
//     repository gave it, which the next access through a wrapper mends. The repository should write none
//     beyond the idle grace: one that stays below the cap is kept.
//   - An Upsert that writes the record whole may wipe the life beside it. created_at, and an
//     expiry that was later, are put back from what is read just before. Where nothing can be
//     read, as when two Upserts race, a Get comes between the write and its expiry, the answer of an Upsert
//     that landed was lost before, or the read that follows the write fails, a new life begins. If another
//     process deletes the record between that read and the write, or deletes and saves it before the read
//     that follows the write, this goes unnoticed, and the new record continues the old one's life. A touch by another process between read and write is
//     lost. With CreatedAt nothing is read, and a later expiry is given up.
//   - An Upsert over a dead record that the store still holds must write the record whole, or reset its
//     life as a new one's. If it keeps the life, the value stays dead, and the call says ErrNotFound.
//   - A deletion that is rolled back, or whose answer is lost, gives up what an Upsert whose expiry failed was to put
//     back: a new life begins. After a lost answer, a touch that failed before and waits may give the next row the
//     created_at that the value before told (WrapOptions.CreatedAt). Where a deletion does not wait for a touch under way, in a transaction, in another
//     process or because its context ended, that touch may still give a row saved meanwhile the life of the one before.
//   - Two Upserts at once are the repository's to order, and so are a deletion and an Upsert or Get: the next row may
//     continue the life that the deletion ends. With CreatedAt, what either of their values tells
//     becomes created_at. A Get that has read a dead record's value just before an Upsert returns it, by the new life.
//   - Between an Upsert that wipes the life and its expiry the record looks like another program's. With
//     Options.Foreign other than Adopt calls for it then fail, and for good if the expiry is never written.
//   - A touch never creates or revives a record, here too. The repository's writes may.
func Wrap[K comparable, V, T any](repo Repository[K, V], s *Store[T], key func(K) string, opts *WrapOptions[V]) (*Wrapped[K, V, T], error) {
	for _, required := range []struct {
		name    string
		missing bool
	}{{"repo", repo == nil}, {"store", s == nil}, {"key", key == nil}} {
		if required.missing {
			return nil, &InvalidError{Field: required.name, Value: "nil", Rule: "is required"}
		}
	}
	return &Wrapped[K, V, T]{repo: repo, s: s, key: key, opts: driver.Given(opts)}, nil
}
