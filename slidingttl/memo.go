package slidingttl

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const memoSlots = 1 << 13

// memo remembers what the store last said of some keys. It saves trips and
// decides nothing: every write still carries its condition. It is bounded: a key
// has one slot and the last to come keeps it.
type memo struct {
	seed   maphash.Seed
	clock  atomic.Uint64 // counts the touches that landed
	slots  [memoSlots]atomic.Pointer[remembered]
	hidden bool // a store in this process needs no memo
}

type remembered struct {
	key    string
	meta   driver.Meta
	landed uint64 // the clock after the touch that wrote meta; zero: it was read
}

func newMemo(hidden bool) *memo { return &memo{seed: maphash.MakeSeed(), hidden: hidden} }

func (m *memo) slot(key string) *atomic.Pointer[remembered] {
	return &m.slots[maphash.String(m.seed, key)%memoSlots]
}

// now is the moment before a read, for landedSince.
func (m *memo) now() uint64 { return m.clock.Load() }

// read remembers what a read that began at since found, unless a touch has
// landed in the meantime and knows better.
func (m *memo) read(key string, meta *driver.Meta, since uint64) {
	if m.hidden {
		return
	}
	s := m.slot(key)
	r := s.Load()
	if r != nil && r.key == key && (r.meta == *meta || r.landed > since) {
		return
	}
	s.CompareAndSwap(r, &remembered{key: key, meta: *meta})
}

// wrote remembers what a write of the value stored.
func (m *memo) wrote(key string, meta driver.Meta) {
	if !m.hidden {
		m.slot(key).Store(&remembered{key: key, meta: meta})
	}
}

// touched remembers what a touch stored.
func (m *memo) touched(key string, meta driver.Meta) {
	if !m.hidden {
		m.slot(key).Store(&remembered{key: key, meta: meta, landed: m.clock.Add(1)})
	}
}

// forget drops what is remembered of key.
func (m *memo) forget(key string) {
	if m.hidden {
		return
	}
	s := m.slot(key)
	if r := s.Load(); r != nil && r.key == key {
		s.CompareAndSwap(r, nil)
	}
}

// known returns what is remembered of key, nil if nothing is.
func (m *memo) known(key string) *driver.Meta {
	if m.hidden {
		return nil
	}
	if r := m.slot(key).Load(); r != nil && r.key == key {
		meta := r.meta
		return &meta
	}
	return nil
}

// landedSince returns what a touch of key stored, if it landed after since. A read
// that began before saw the record as it was then, and need not touch again.
func (m *memo) landedSince(key string, since uint64) (driver.Meta, bool) {
	if m.hidden {
		return driver.Meta{}, false
	}
	if r := m.slot(key).Load(); r != nil && r.key == key && r.landed > since {
		return r.meta, true
	}
	return driver.Meta{}, false
}
