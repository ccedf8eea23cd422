package memory

import (
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// record is one key's value and life. Of what readers use, only the expiry changes: a write
// of the value, or of created_at, replaces the record. It takes 48 bytes and the value,
// followed by its key, so a read has two cache misses, the table's bucket and this. With a
// 64-byte value and a key of up to 16 bytes it is two cache lines.
type record[T any] struct {
	value T

	// The record's place in the wheel, guarded by its stripe's lock.
	prev, next *record[T]
	level      int8 // unfiled if it is not in the wheel
	slot       uint8
	stripe     uint8 // never changes

	keyLen  uint8  // of a key whose bytes follow; keyApart if its string follows
	hash    uint32 // of the key; the table sets it before the record is visible
	version driver.Version
	created driver.Instant
	// expires is the expiry, a driver.Instant. It is stored only under the key's
	// lock in the table.
	expires atomic.Int64
}

const (
	unfiled  = -1
	keyApart = 0xff
)

// newRecord returns a record of key, which it copies: the caller's may be part of a large
// string. A key that is too long to follow its record is shared with old, the key's record
// before, which may be nil.
func newRecord[T any](key string, old *record[T]) *record[T] {
	var r *record[T]
	switch {
	case len(key) <= 16:
		k := new(keyed[T, [16]byte])
		copy(k.key[:], key)
		r = &k.record
	case len(key) <= 32:
		k := new(keyed[T, [32]byte])
		copy(k.key[:], key)
		r = &k.record
	case len(key) <= 48:
		k := new(keyed[T, [48]byte])
		copy(k.key[:], key)
		r = &k.record
	default:
		if old != nil {
			key = old.key()
		} else {
			key = strings.Clone(key)
		}
		return &(&keyed[T, string]{record[T]{keyLen: keyApart}, key}).record
	}
	r.keyLen = uint8(len(key))
	return r
}

// keyed is the allocation of a record and its key K. There is no gap between the two, since
// no K in use aligns to more than a record does.
type keyed[T, K any] struct {
	record[T]
	key K
}

// behind returns the address after r, where a short key is.
func (r *record[T]) behind() unsafe.Pointer { return unsafe.Add(unsafe.Pointer(r), unsafe.Sizeof(*r)) }

func (r *record[T]) key() string {
	if r.keyLen == keyApart {
		return *(*string)(r.behind())
	}
	return unsafe.String((*byte)(r.behind()), int(r.keyLen))
}

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

// endedBy returns r if writing life next over it at now ends r's life, and nil if that life
// continues. r's life has ended if r is dead, or if the write's planner found it dead a moment
// later or past its cap. A live record without created_at is adopted: its life continues.
func (r *record[T]) endedBy(next driver.Life, now driver.Instant) *record[T] {
	if found := r.alive(now); found != nil && (found.CreatedAt == 0 || found.CreatedAt == next.CreatedAt) {
		return nil
	}
	return r
}

func (r *record[T]) entry() driver.Entry[T] {
	return driver.Entry[T]{Value: r.value, Meta: r.meta()}
}
