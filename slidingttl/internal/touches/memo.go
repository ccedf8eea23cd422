package touches

import (
	"hash/maphash"
	"math/bits"
	"strings"
	"sync/atomic"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
)

// Memo remembers the last known Meta of some keys. A nil Memo remembers nothing.
//
// It saves trips and decides nothing: every write still has its condition. Its size is fixed: a new
// key evicts the one in its slot.
type Memo struct {
	seed  maphash.Seed
	clock atomic.Uint64 // counts touches that landed, lowered expiries, and Forgets
	slots []atomic.Pointer[remembered]
	gone  []gone // by hash of the key, as many as slots, or leastGone
}

type remembered struct {
	key      string
	meta     driver.Meta
	landed   uint64         // clock after the touch that wrote meta, or the write that lowered it; zero: meta was read
	replaced driver.Meta    // the record that this touch replaced; zero: unknown
	sure     bool           // it replaced just that
	at       driver.Instant // when meta was stored, at the latest known
	valid    atomic.Bool    // its key was not forgotten while it was stored
}

// gone says which answers about keys of one hash must not be remembered.
type gone struct {
	at      atomic.Uint64 // answers to calls that began before this clock
	deletes atomic.Int64  // deletes under way: no answer at all
}

const leastGone = 1 << 10

// NewMemo returns a memo for about size keys.
func NewMemo(size int) *Memo {
	slots := 1 << bits.Len(uint(size-1))
	return &Memo{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[remembered], slots), gone: make([]gone, max(leastGone, slots))}
}

// size is how many keys m remembers at most.
func (m *Memo) size() int {
	if m == nil {
		return 0
	}
	return len(m.slots)
}

func (m *Memo) hash(key string) uint64 { return maphash.String(m.seed, key) }

// both returns the two possible slots of a key with hash h, so that keys in use rarely evict each other.
func (m *Memo) both(h uint64) (first, second *atomic.Pointer[remembered]) {
	last := uint64(len(m.slots) - 1)
	return &m.slots[h&last], &m.slots[h>>32&last]
}

// slot returns the slot of key with hash h.
func (m *Memo) slot(h uint64, key string) *atomic.Pointer[remembered] {
	first, second := m.both(h)
	a, b := first.Load(), second.Load()
	if known := b != nil && b.key == key; !known && (a == nil || a.key == key || b != nil) {
		return first
	}
	return second
}

func (m *Memo) goneOf(h uint64) *gone { return &m.gone[h>>16%uint64(len(m.gone))] }

// after reports whether the answer to a call that began at since must be forgotten.
func (g *gone) after(since uint64) bool { return g.at.Load() > since || g.deletes.Load() > 0 }

// forget makes the answers to calls that began before at be forgotten.
func (g *gone) forget(at uint64) {
	for was := g.at.Load(); was < at && !g.at.CompareAndSwap(was, at); was = g.at.Load() {
	}
}

// Clock returns the moment to remember before a read or write.
func (m *Memo) Clock() uint64 {
	if m == nil {
		return 0
	}
	return m.clock.Load()
}

// lowered has the answers to reads of key that began before now forgotten, for they may have seen an expiry that has been
// lowered; and key itself, unless what is then stored is known. It returns the clock after that.
func (m *Memo) lowered(key string, known bool) uint64 {
	if m == nil {
		return 0
	}
	if !known {
		m.Forget(key)
	}
	now := m.clock.Add(1)
	m.goneOf(m.hash(key)).forget(now)
	return now
}

// Read remembers the result of a read that began at since, which is at by the store's clock, unless a later state is
// known. rules are the record's.
func (m *Memo) Read(key string, meta *driver.Meta, since uint64, at driver.Instant, rules *rules.Rules) {
	if m == nil {
		return
	}
	h := m.hash(key)
	s := m.slot(h, key)
	r := s.Load()
	if r != nil && r.key == key {
		if r.meta == *meta && (rules.Lasts(r.meta.Life, r.at) || !rules.Lasts(r.meta.Life, at)) || r.landed > since || r.landed > 0 && r.replaced == *meta { // the last is a stale read
			return
		}
		key = r.key
	} else {
		key = strings.Clone(key) // it may be part of a long string
	}
	n := &remembered{key: key, meta: *meta, at: at}
	if r != nil && r.key == key && r.meta == *meta { // what this store's touch replaced stays known
		n.landed, n.replaced, n.sure = r.landed, r.replaced, r.sure
	}
	if s.CompareAndSwap(r, n) {
		m.validate(s, n, h, since)
	}
}

// validate makes r, which has just been stored in s, known, unless its key was forgotten after since.
func (m *Memo) validate(s *atomic.Pointer[remembered], r *remembered, h, since uint64) {
	if m.goneOf(h).after(since) {
		s.CompareAndSwap(r, nil)
		return
	}
	r.valid.Store(true) // if it is forgotten now, it is in s no more
}

// Wrote remembers the result of a write of the value that began at since, which is at by the store's clock. If it has
// lowered the expiry, reads that began before do not replace that.
func (m *Memo) Wrote(key string, meta driver.Meta, since uint64, at driver.Instant, lowered bool) {
	if m == nil {
		return
	}
	r := &remembered{key: key, meta: meta, at: at}
	if lowered {
		r.landed = m.clock.Add(1)
	}
	m.put(r, since)
}

// Touched remembers that a touch, begun at since, which is at by the store's clock, wrote meta over replaced, or, unless sure, over
// what came after that.
func (m *Memo) Touched(key string, replaced, meta driver.Meta, since uint64, at driver.Instant, sure bool) {
	if m != nil {
		m.put(&remembered{key: key, meta: meta, landed: m.clock.Add(1), replaced: replaced, sure: sure, at: at}, since)
	}
}

// put remembers r, unless its key was forgotten after since.
func (m *Memo) put(r *remembered, since uint64) {
	h := m.hash(r.key)
	s := m.slot(h, r.key)
	r.key = strings.Clone(r.key)
	s.Store(r)
	m.validate(s, r, h, since)
}

// Forget forgets key and returns its Meta, or nil.
func (m *Memo) Forget(key string) (was *driver.Meta) {
	if m == nil {
		return nil
	}
	h := m.hash(key)
	m.goneOf(h).forget(m.clock.Add(1))
	first, second := m.both(h)
	for _, s := range [...]*atomic.Pointer[remembered]{first, second} { // concurrent calls may have used both
		if r := s.Load(); r != nil && r.key == key {
			s.CompareAndSwap(r, nil)
			was = &r.meta
		}
	}
	return was
}

// ForgetAll forgets all keys.
func (m *Memo) ForgetAll() {
	if m == nil {
		return
	}
	now := m.clock.Add(1)
	for i := range m.gone {
		m.gone[i].forget(now)
	}
	for i := range m.slots {
		m.slots[i].Store(nil)
	}
}

// Deleting forgets key, and blocks remembering it until deleted is called, because reads meanwhile
// may still see the record.
func (m *Memo) Deleting(key string) (deleted func()) {
	if m == nil {
		return func() {}
	}
	key = strings.Clone(key) // it may be part of a long string, and deleted may be called much later
	g := m.goneOf(m.hash(key))
	g.deletes.Add(1)
	m.Forget(key)
	return func() {
		m.Forget(key)
		g.deletes.Add(-1)
	}
}

// Known returns the remembered Meta of key, or nil. Callers must not modify it.
func (m *Memo) Known(key string) *driver.Meta {
	known, _ := m.KnownAt(key)
	return known
}

// KnownAt is Known, and returns the last time at which the store is known to have had that.
func (m *Memo) KnownAt(key string) (*driver.Meta, driver.Instant) {
	if r := m.find(key); r != nil {
		return &r.meta, r.at
	}
	return nil, 0
}

func (m *Memo) find(key string) *remembered {
	if m == nil {
		return nil
	}
	if r := m.slot(m.hash(key), key).Load(); r != nil && r.key == key && r.valid.Load() {
		return r
	}
	return nil
}

// landedSince returns the outcome of the last touch of a's key, if it was known after a's record was
// read. A read that saw the record which that touch replaced need not touch again. A read that saw
// anything else may be later than the touch.
func (m *Memo) landedSince(a *Access) Outcome {
	r := m.find(a.Key)
	if r == nil || r.landed <= a.Since {
		return Outcome{result: none}
	}
	o := Outcome{Was: r.replaced, Meta: r.meta, Cap: a.Rules.Cap(r.meta.CreatedAt), result: Shared}
	if r.sure {
		o.Replaced = r.replaced
	}
	return o
}
