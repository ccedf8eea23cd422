package memory

import (
	"sync/atomic"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// record is one key's value and life. Everything readers look at is immutable but
// the expiry: a write of the value, or of created_at, puts a new record in its
// place. It takes 64 bytes and the value.
type record[T any] struct {
	value   T
	key     string
	created driver.Instant
	version driver.Version
	// expires is the expiry, a driver.Instant. It is stored only under the key's
	// lock in the table.
	expires atomic.Int64

	// Where the record lies in the wheel, guarded by its stripe's lock.
	prev, next *record[T]
	level      int8 // unfiled where it lies nowhere
	slot       uint8
	stripe     uint8 // never changes
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
