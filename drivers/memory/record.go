package memory

import (
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// record is one key's value and life. Everything readers look at is immutable but
// the expiry: a write of the value, or of created_at, puts a new record in its
// place. It takes 64 bytes and the value, and the key's bytes follow where they are
// few: so a read waits for memory twice, for the table's bucket and for this, and
// what decides comes in one piece at the end.
type record[T any] struct {
	value T

	// Where the record lies in the wheel, guarded by its stripe's lock.
	prev, next *record[T]
	level      int8 // unfiled where it lies nowhere
	slot       uint8
	stripe     uint8 // never changes

	hash    uint32 // of key; the table's, written before anybody else sees the record
	version driver.Version
	created driver.Instant
	// expires is the expiry, a driver.Instant. It is stored only under the key's
	// lock in the table.
	expires atomic.Int64
	key     string
}

// newRecord returns a record of key, which it copies: the caller's may be a small
// part of a large string. The string kept is kept again by the key's next record.
func newRecord[T any](key string, kept *record[T]) *record[T] {
	switch {
	case len(key) <= 16:
		r := new(struct {
			record[T]
			bytes [16]byte
		})
		r.key = ownKey(r.bytes[:], key)
		return &r.record
	case len(key) <= 32:
		r := new(struct {
			record[T]
			bytes [32]byte
		})
		r.key = ownKey(r.bytes[:], key)
		return &r.record
	case len(key) <= 48:
		r := new(struct {
			record[T]
			bytes [48]byte
		})
		r.key = ownKey(r.bytes[:], key)
		return &r.record
	case kept != nil:
		return &record[T]{key: kept.key}
	}
	return &record[T]{key: strings.Clone(key)}
}

// ownKey copies key to bytes, which nobody writes to again, and returns it there.
func ownKey(bytes []byte, key string) string {
	return unsafe.String(&bytes[0], copy(bytes, key))
}

const unfiled = -1

func (r *record[T]) expiry() driver.Instant { return driver.Instant(r.expires.Load()) }

func (r *record[T]) life() driver.Life {
	return driver.Life{CreatedAt: r.created, ExpiresAt: r.expiry()}
}

func (r *record[T]) meta() driver.Meta {
	return driver.Meta{Life: r.life(), Version: r.version}
}

// alive returns r's meta, or nil if it is dead at now or there is none.
func (r *record[T]) alive(now driver.Instant) *driver.Meta {
	if r == nil {
		return nil
	}
	if m := r.meta(); m.Alive(now) {
		return &m
	}
	return nil
}

func (r *record[T]) entry() driver.Entry[T] {
	return driver.Entry[T]{Value: r.value, Meta: r.meta()}
}
