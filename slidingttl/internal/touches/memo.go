package touches

import (
	"hash/maphash"
	"math/bits"
	"strings"
	"sync/atomic"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Memo remembers what the store last said of some keys. A nil Memo remembers nothing.
//
// It saves trips and decides nothing: every write still carries its condition. It is bounded:
// the last to come to a slot keeps it.
type Memo struct {
	seed  maphash.Seed
	clock atomic.Uint64 // counts the touches that landed, and what was forgotten
	slots []atomic.Pointer[remembered]
	gone  [1 << 10]gone // by hash of the key
}

type remembered struct {
	key      string
	meta     driver.Meta
	landed   uint64      // the clock after the touch that wrote meta; zero: it was read
	replaced driver.Meta // what that touch was written over; zero: unknown
}

// gone says what may not be remembered of the keys of a hash.
type gone struct {
	at      atomic.Uint64 // what was known at this clock, or before
	deletes atomic.Int64  // under way: anything
}

// NewMemo returns a memo for some size keys.
func NewMemo(size int) *Memo {
	return &Memo{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[remembered], 1<<bits.Len(uint(size-1)))}
}

func (m *Memo) hash(key string) uint64 { return maphash.String(m.seed, key) }

// slot is the place of key, of hash h. A key has two places, so that few keys in use drive each
// other out.
func (m *Memo) slot(h uint64, key string) *atomic.Pointer[remembered] {
	last := uint64(len(m.slots) - 1)
	first, second := &m.slots[h&last], &m.slots[h>>32&last]
	a, b := first.Load(), second.Load()
	switch {
	case b != nil && b.key == key:
		return second
	case a == nil || a.key == key || b != nil:
		return first
	}
	return second
}

func (m *Memo) goneOf(h uint64) *gone { return &m.gone[h>>16%uint64(len(m.gone))] }

// after reports whether what was known at clock since must be forgotten.
func (g *gone) after(since uint64) bool { return g.at.Load() > since || g.deletes.Load() > 0 }

// Clock is the moment before a read or a write whose answer will be remembered.
func (m *Memo) Clock() uint64 {
	if m == nil {
		return 0
	}
	return m.clock.Load()
}

// Read remembers what a read that began at since found, unless something later is known.
func (m *Memo) Read(key string, meta *driver.Meta, since uint64) {
	if m == nil {
		return
	}
	h := m.hash(key)
	s := m.slot(h, key)
	r := s.Load()
	if r != nil && r.key == key {
		if r.meta == *meta || r.landed > since {
			return
		}
		key = r.key
	} else {
		key = strings.Clone(key) // it may be part of a long string
	}
	n := &remembered{key: key, meta: *meta}
	if s.CompareAndSwap(r, n) && m.goneOf(h).after(since) {
		s.CompareAndSwap(n, nil)
	}
}

// Wrote remembers what a write of the value that began at since stored.
func (m *Memo) Wrote(key string, meta driver.Meta, since uint64) {
	if m != nil {
		m.put(remembered{key: key, meta: meta}, since)
	}
}

// Touched remembers what a touch that began at since stored over what was there.
func (m *Memo) Touched(key string, replaced, meta driver.Meta, since uint64) {
	if m != nil {
		m.put(remembered{key: key, meta: meta, landed: m.clock.Add(1), replaced: replaced}, since)
	}
}

// put remembers r, unless its key was found gone after since.
func (m *Memo) put(r remembered, since uint64) {
	h := m.hash(r.key)
	s := m.slot(h, r.key)
	r.key = strings.Clone(r.key)
	if s.Store(&r); m.goneOf(h).after(since) {
		s.CompareAndSwap(&r, nil)
	}
}

// Forget drops what is remembered of key and returns it, nil if nothing was.
func (m *Memo) Forget(key string) *driver.Meta {
	if m == nil {
		return nil
	}
	h := m.hash(key)
	m.goneOf(h).at.Store(m.clock.Add(1))
	s := m.slot(h, key)
	r := s.Load()
	if r == nil || r.key != key {
		return nil
	}
	s.CompareAndSwap(r, nil)
	return &r.meta
}

// Deleting forgets key, and remembers nothing of it until deleted is called. A read meanwhile
// may still see the record.
func (m *Memo) Deleting(key string) (deleted func()) {
	if m == nil {
		return func() {}
	}
	g := m.goneOf(m.hash(key))
	g.deletes.Add(1)
	m.Forget(key)
	return func() {
		m.Forget(key)
		g.deletes.Add(-1)
	}
}

// Known returns what is remembered of key, nil if nothing is. It is not to be written to.
func (m *Memo) Known(key string) *driver.Meta {
	if r := m.find(key); r != nil {
		return &r.meta
	}
	return nil
}

func (m *Memo) find(key string) *remembered {
	if m == nil {
		return nil
	}
	if r := m.slot(m.hash(key), key).Load(); r != nil && r.key == key {
		return r
	}
	return nil
}

// landedSince returns the last touch of key, if its answer came after since. A read that saw
// what that replaced need not touch again; one that saw anything else may have come after it.
func (m *Memo) landedSince(key string, since uint64) (replaced, meta driver.Meta, ok bool) {
	if r := m.find(key); r != nil && r.landed > since {
		return r.replaced, r.meta, true
	}
	return replaced, meta, false
}
