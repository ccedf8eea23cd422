package slidingttl

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const memoSlots = 1 << 13

// memo remembers what the store last said of some keys. It saves trips and
// decides nothing: every write still carries its condition. It is bounded: the last
// to come to a slot keeps it. A nil memo remembers nothing.
type memo struct {
	seed   maphash.Seed
	clock  atomic.Uint64 // counts the touches that landed, and what was forgotten
	slots  [memoSlots]atomic.Pointer[remembered]
	forgot [memoSlots / 8]atomic.Uint64 // by hash of the key: the clock when one was forgotten last
}

type remembered struct {
	key    string
	meta   driver.Meta
	landed uint64      // the clock after the touch that wrote meta; zero: it was read
	over   driver.Meta // what that touch was written over; zero: unknown
}

func newMemo() *memo { return &memo{seed: maphash.MakeSeed()} }

// slot is where key is, or is to be. A key has two places, so that few that are in
// use drive each other out.
func (m *memo) slot(key string) *atomic.Pointer[remembered] { return m.place(m.hash(key), key) }

func (m *memo) hash(key string) uint64 { return maphash.String(m.seed, key) }

func (m *memo) place(h uint64, key string) *atomic.Pointer[remembered] {
	first, second := &m.slots[h%memoSlots], &m.slots[h>>32%memoSlots]
	a, b := first.Load(), second.Load()
	switch {
	case b != nil && b.key == key:
		return second
	case a == nil || a.key == key || b != nil:
		return first
	}
	return second
}

// now is the moment before a read, for landedSince.
func (m *memo) now() uint64 {
	if m == nil {
		return 0
	}
	return m.clock.Load()
}

// read remembers what a read that began at since found, unless a touch that has
// landed in the meantime, or a call that found nothing, knows better.
func (m *memo) read(key string, meta *driver.Meta, since uint64) {
	if m == nil {
		return
	}
	h := m.hash(key)
	s := m.place(h, key)
	r := s.Load()
	if r != nil && r.key == key && (r.meta == *meta || r.landed > since) {
		return
	}
	n := &remembered{key: key, meta: *meta}
	if s.CompareAndSwap(r, n) && m.gone(h).Load() > since {
		s.CompareAndSwap(n, nil)
	}
}

// wrote remembers what a write of the value that began at since stored.
func (m *memo) wrote(key string, meta driver.Meta, since uint64) {
	if m != nil {
		m.put(&remembered{key: key, meta: meta}, since)
	}
}

// touched remembers what a touch that began at since stored over what was there.
func (m *memo) touched(key string, over, meta driver.Meta, since uint64) {
	if m != nil {
		m.put(&remembered{key: key, meta: meta, landed: m.clock.Add(1), over: over}, since)
	}
}

// put remembers r, unless its key was found gone after since.
func (m *memo) put(r *remembered, since uint64) {
	h := m.hash(r.key)
	s := m.place(h, r.key)
	if s.Store(r); m.gone(h).Load() > since {
		s.CompareAndSwap(r, nil)
	}
}

func (m *memo) gone(hash uint64) *atomic.Uint64 { return &m.forgot[hash%uint64(len(m.forgot))] }

// forget drops what is remembered of key and returns it, nil if nothing was.
func (m *memo) forget(key string) *driver.Meta {
	if m == nil {
		return nil
	}
	h := m.hash(key)
	m.gone(h).Store(m.clock.Add(1))
	s := m.place(h, key)
	r := s.Load()
	if r == nil || r.key != key {
		return nil
	}
	s.CompareAndSwap(r, nil)
	return &r.meta
}

// known returns what is remembered of key, nil if nothing is. It is not to be
// written to.
func (m *memo) known(key string) *driver.Meta {
	if m == nil {
		return nil
	}
	if r := m.slot(key).Load(); r != nil && r.key == key {
		return &r.meta
	}
	return nil
}

// landedSince returns what a touch of key stored over what, if its answer came after since.
// A read that saw what it was written over need not touch again; one that saw anything
// else may have come after it.
func (m *memo) landedSince(key string, since uint64) (over, meta driver.Meta, ok bool) {
	if m == nil {
		return over, meta, false
	}
	if r := m.slot(key).Load(); r != nil && r.key == key && r.landed > since {
		return r.over, r.meta, true
	}
	return over, meta, false
}
