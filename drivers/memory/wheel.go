package memory

import (
	"math/bits"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	wheelBits    = 6                                // slots of a level: one word of occupancy
	wheelSlots   = 1 << wheelBits                   //
	wheelLevels  = (63 + wheelBits - 1) / wheelBits // every Instant has a slot
	wheelStripes = 4
)

// wheel files records by their expiry in a hierarchical timing wheel of whole
// milliseconds. It is striped, so that inserts on several cores seldom meet: on two
// cores they were 10 to 20 % faster with four stripes than with one, and no faster
// with eight.
//
// A touch does not move a record in the wheel, so a record may expire later than its slot:
// when the slot comes up, the record is filed again. It never expires earlier.
type wheel[T any] struct {
	stripes [wheelStripes]stripe[T]
	turn    int // the stripe that due starts with; guarded by the caller of due
}

// stripe is one wheel. A record lies on the level of the highest digit, in base
// wheelSlots, in which its expiry differs from now, in the slot of that digit. So
// no occupied slot of a level is behind now's, and the slot of now's own digit is
// occupied only while it is being emptied.
type stripe[T any] struct {
	mu       sync.Mutex // guards all below, and the place of the records filed here
	now      int64      // every slot that comes up before it is empty
	closed   bool       // no more records are filed
	occupied [wheelLevels]uint64
	slots    [wheelLevels][wheelSlots]*record[T]
	_        [64]byte
}

// newWheel returns an empty wheel that stands at now.
func newWheel[T any](now driver.Instant) *wheel[T] {
	w := new(wheel[T])
	for i := range w.stripes {
		w.stripes[i].now = max(0, int64(now))
	}
	return w
}

// file moves r to the slot of its expiry, or out of the wheel if it has none. It returns when
// that slot comes up: at r's expiry or before. The caller holds the lock of r's key in the
// table, so r is current.
func (w *wheel[T]) file(r *record[T]) driver.Instant {
	s := &w.stripes[r.stripe]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlink(r)
	return s.link(r)
}

// swap removes old, which may be nil, and files r, which is of the same stripe.
func (w *wheel[T]) swap(old, r *record[T]) driver.Instant {
	s := &w.stripes[r.stripe]
	s.mu.Lock()
	defer s.mu.Unlock()
	if old != nil {
		s.unlink(old)
	}
	return s.link(r)
}

// remove removes r from the wheel.
func (w *wheel[T]) remove(r *record[T]) {
	s := &w.stripes[r.stripe]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlink(r)
}

// due removes records that are dead at now and appends them to dead. It files records again
// whose slot has come up but that are alive. It stops after most records of both kinds, and
// reports whether there may be more.
func (w *wheel[T]) due(now driver.Instant, dead []*record[T], most int) ([]*record[T], bool) {
	for range wheelStripes {
		s := &w.stripes[w.turn]
		s.mu.Lock()
		dead, most = s.due(int64(now), dead, most)
		s.mu.Unlock()
		if most == 0 {
			return dead, true
		}
		w.turn = (w.turn + 1) % wheelStripes
	}
	return dead, false
}

// next returns when the next occupied slot comes up, MaxInstant if there is none.
func (w *wheel[T]) next() driver.Instant {
	first := driver.MaxInstant
	for i := range w.stripes {
		s := &w.stripes[i]
		s.mu.Lock()
		if at, _, ok := s.next(); ok {
			first = min(first, driver.Instant(at))
		}
		s.mu.Unlock()
	}
	return first
}

// upTo calls each for the records whose slots come up by until: all that expire by then, and some that
// were touched since.
func (w *wheel[T]) upTo(until driver.Instant, each func(*record[T])) {
	for i := range w.stripes {
		s := &w.stripes[i]
		s.mu.Lock()
		for level := range wheelLevels {
			for left := s.occupied[level]; left != 0; left &= left - 1 {
				slot := bits.TrailingZeros64(left)
				if s.comesUp(level, slot) > int64(until) {
					break
				}
				for r := s.slots[level][slot]; r != nil; r = r.next {
					each(r)
				}
			}
		}
		s.mu.Unlock()
	}
}

// close drops all records and takes no more.
func (w *wheel[T]) close() {
	for i := range w.stripes {
		s := &w.stripes[i]
		s.mu.Lock()
		s.closed = true
		clear(s.occupied[:])
		clear(s.slots[:])
		s.mu.Unlock()
	}
}

func (s *stripe[T]) link(r *record[T]) driver.Instant {
	at := int64(r.expiry())
	if at == 0 || s.closed {
		return driver.MaxInstant
	}
	at = max(at, s.now)
	level := (bits.Len64(uint64(at^s.now)) - 1) / wheelBits
	slot := at >> (level * wheelBits) & (wheelSlots - 1)
	r.level, r.slot = int8(level), uint8(slot)
	head := &s.slots[level][slot]
	r.next = *head
	if r.next != nil {
		r.next.prev = r
	}
	*head = r
	s.occupied[level] |= 1 << slot
	return driver.Instant(at >> (level * wheelBits) << (level * wheelBits))
}

func (s *stripe[T]) unlink(r *record[T]) {
	if r.level == unfiled || s.closed {
		return
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		s.slots[r.level][r.slot] = r.next
		if r.next == nil {
			s.occupied[r.level] &^= 1 << r.slot
		}
	}
	// Cleared, because a reader may hold r for long, and must not keep its neighbours alive.
	r.prev, r.next, r.level = nil, nil, unfiled
}

// next returns when the first occupied slot comes up, and that slot.
func (s *stripe[T]) next() (at int64, slot **record[T], ok bool) {
	for level := range wheelLevels {
		if s.occupied[level] == 0 {
			continue
		}
		i := bits.TrailingZeros64(s.occupied[level])
		if t := s.comesUp(level, i); !ok || t < at {
			at, slot, ok = t, &s.slots[level][i], true
		}
	}
	return at, slot, ok
}

// comesUp returns when a slot comes up: now with that digit in its place and zeros below. Shifts beyond
// the width of an int64 give zero, as they should.
func (s *stripe[T]) comesUp(level, slot int) int64 {
	shift := level * wheelBits
	return max(s.now, s.now>>(shift+wheelBits)<<(shift+wheelBits)|int64(slot)<<shift)
}

func (s *stripe[T]) due(now int64, dead []*record[T], most int) ([]*record[T], int) {
	for {
		at, slot, ok := s.next()
		if !ok || at > now {
			s.now = max(s.now, now)
			return dead, most
		}
		s.now = at
		for *slot != nil {
			if most == 0 {
				return dead, 0
			}
			most--
			r := *slot
			s.unlink(r)
			if r.life().Alive(driver.Instant(now)) {
				s.link(r)
			} else {
				dead = append(dead, r)
			}
		}
	}
}
