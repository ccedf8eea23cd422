package memory

import (
	"math"
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
	// expires is the expiry, a driver.Instant, above the three bits. It is stored under
	// the key's lock in the table, except that Slide moves it while none is set.
	expires atomic.Int64
}

const (
	unfiled  = -1
	keyApart = 0xff
)

// The lowest bits of a record's expires.
const (
	heldBit    = 1 << iota // a writer has the key's lock, or the record has left the table
	endedBit               // Get has returned the record dead, or a touch has ended its life
	loweredBit             // the last touch lowered the expiry: no Slide of a Get that began before

	lifeBits = iota // how many they are
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

func (r *record[T]) expiry() driver.Instant { return instantOf(r.expires.Load()) }

// instantOf returns the expiry that word keeps.
func instantOf(word int64) driver.Instant { return driver.Instant(word >> lifeBits) }

// setExpiry stores at, and ends a hold. An instant 36 million years away is the last, or first.
func (r *record[T]) setExpiry(at driver.Instant) { r.expires.Store(wordOf(at)) }

// wordOf returns at as a record keeps it.
func wordOf(at driver.Instant) int64 {
	const last = math.MaxInt64 >> lifeBits
	return int64(max(-last, min(at, last))) << lifeBits
}

// hold keeps Slide off r, which may be nil, until release. The caller has the lock of r's key.
func (r *record[T]) hold() {
	if r != nil {
		r.expires.Or(heldBit)
	}
}

func (r *record[T]) release() {
	if r != nil {
		r.expires.And(^heldBit)
	}
}

func (r *record[T]) ended() bool { return r.expires.Load()&endedBit != 0 }

func (r *record[T]) life() driver.Life {
	return driver.Life{CreatedAt: r.created, ExpiresAt: r.expiry()}
}

func (r *record[T]) meta() driver.Meta { return r.metaOf(r.expires.Load()) }

// metaOf is meta when expires was word.
func (r *record[T]) metaOf(word int64) driver.Meta {
	return driver.Meta{Life: driver.Life{CreatedAt: r.created, ExpiresAt: instantOf(word)}, Version: r.version}
}

// alive returns r's meta, or nil if it is dead at now or there is none.
func (r *record[T]) alive(now driver.Instant) *driver.Meta {
	if r == nil || r.ended() {
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
