package memory

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// model is what a wheel should hold: every filed record by its current expiry.
type model struct {
	t       testing.TB
	wheel   *wheel[int]
	now     driver.Instant
	records map[*record[int]]bool
	stripe  uint8
}

func newModel(t testing.TB, now driver.Instant) *model {
	return &model{t: t, wheel: newWheel[int](now), now: now, records: map[*record[int]]bool{}}
}

func (m *model) add(expiry driver.Instant) *record[int] {
	r := &record[int]{level: unfiled, stripe: m.stripe % wheelStripes}
	m.stripe++
	r.setExpiry(expiry)
	m.filed(r, m.wheel.swap(nil, r))
	if expiry != 0 {
		m.records[r] = true
	}
	return r
}

// filed checks what the wheel says of a record it has just filed.
func (m *model) filed(r *record[int], at driver.Instant) {
	m.t.Helper()
	switch expiry := r.expiry(); {
	case expiry == 0 && (at != driver.MaxInstant || r.level != unfiled):
		m.t.Fatalf("a record that never expires is filed for %d", at)
	case expiry != 0 && (at > max(expiry, m.now) || r.level == unfiled):
		m.t.Fatalf("at %d a record that expires at %d is filed for %d on level %d", m.now, expiry, at, r.level)
	}
}

// touch moves a record's expiry as Driver.Touch does.
func (m *model) touch(r *record[int], expiry driver.Instant) {
	before := r.expiry()
	r.setExpiry(expiry)
	if before == 0 || expiry < before {
		m.filed(r, m.wheel.file(r))
	}
	if expiry != 0 {
		m.records[r] = true
	} else {
		delete(m.records, r)
	}
}

func (m *model) remove(r *record[int]) {
	m.wheel.remove(r)
	delete(m.records, r)
	if r.level != unfiled || r.prev != nil || r.next != nil {
		m.t.Fatal("a removed record is still linked")
	}
}

// advance moves time and has the wheel give out the dead, in batches of most.
func (m *model) advance(now driver.Instant, most int) {
	m.t.Helper()
	m.now = max(m.now, now)
	for more := true; more; {
		var dead []*record[int]
		dead, more = m.wheel.due(m.now, nil, most)
		if len(dead) > most {
			m.t.Fatalf("%d records in a batch of %d", len(dead), most)
		}
		for _, r := range dead {
			if !m.records[r] {
				m.t.Fatalf("at %d a record came up that is not filed, or came up before", m.now)
			}
			if r.life().Alive(m.now) {
				m.t.Fatalf("at %d a record came up that expires at %d", m.now, r.expiry())
			}
			delete(m.records, r)
		}
	}
	m.check()
}

// check compares the wheel with the model.
func (m *model) check() {
	m.t.Helper()
	first := driver.MaxInstant
	for r := range m.records {
		if !r.life().Alive(m.now) {
			m.t.Fatalf("at %d a record that expired at %d is still filed", m.now, r.expiry())
		}
		first = min(first, r.expiry())
	}
	switch next := m.wheel.next(); {
	case next > first:
		m.t.Fatalf("the wheel next comes up at %d, after a record expires at %d", next, first)
	case next <= m.now && m.now < driver.MaxInstant:
		m.t.Fatalf("the wheel next comes up at %d, which is not after now, %d", next, m.now)
	}
	held := 0
	for i := range m.wheel.stripes {
		s := &m.wheel.stripes[i]
		for level := range s.slots {
			for slot, head := range s.slots[level] {
				if occupied := s.occupied[level]>>slot&1 == 1; occupied != (head != nil) {
					m.t.Fatalf("level %d slot %d is marked %v", level, slot, occupied)
				}
				var prev *record[int]
				for r := head; r != nil; prev, r = r, r.next {
					held++
					if r.prev != prev || int(r.level) != level || int(r.slot) != slot || int(r.stripe) != i {
						m.t.Fatalf("a record in level %d slot %d is linked wrongly", level, slot)
					}
					// A record that was touched to never stays until its slot comes up.
					if !m.records[r] && r.expiry() != 0 {
						m.t.Fatalf("the wheel holds a record that is not filed")
					}
				}
			}
		}
	}
	if held < len(m.records) {
		m.t.Fatalf("the wheel holds %d records, want %d", held, len(m.records))
	}
}

const epoch = driver.Instant(1_800_000_000_000)

func TestWheelEveryDistance(t *testing.T) {
	var distances []time.Duration
	for d := time.Millisecond; d > 0 && d < math.MaxInt64/3; d *= 3 {
		distances = append(distances, d-time.Millisecond, d, d+time.Millisecond)
	}
	for _, start := range []driver.Instant{0, 1, 63, 64, epoch, epoch | 0xffffff, driver.MaxInstant - 1} {
		m := newModel(t, start)
		for _, d := range distances {
			m.add(start.Add(d))
		}
		for _, d := range distances {
			m.advance(start.Add(d-time.Millisecond), 3)
			m.advance(start.Add(d), 3)
		}
		m.add(driver.MaxInstant)
		m.add(driver.MaxInstant - 1)
		m.add(math.MinInt64) // long dead
		m.add(-1)
		m.add(0)
		m.advance(driver.MaxInstant-2, 3)
		m.advance(driver.MaxInstant-1, 3)
		m.advance(driver.MaxInstant, 3)
		if len(m.records) != 0 {
			t.Errorf("start %d: %d records left at the end of time", start, len(m.records))
		}
	}
}

// TestWheelCascades: a record is looked at no more often than there are levels
// between it and its expiry, however far that is.
func TestWheelCascades(t *testing.T) {
	for ttl := time.Millisecond; ttl < 20*365*24*time.Hour; ttl *= 2 {
		w := newWheel[int](epoch)
		r := &record[int]{level: unfiled}
		expiry := epoch.Add(ttl)
		r.setExpiry(expiry)
		w.swap(nil, r)
		levels := int(r.level)
		wakes := 0
		for now := epoch; now < expiry; wakes++ {
			now = w.next()
			dead, _ := w.due(now, nil, 1)
			if (len(dead) == 1) != (now == expiry) {
				t.Fatalf("ttl %v: dead %v at %d of %d ms", ttl, len(dead), now-epoch, expiry-epoch)
			}
		}
		if wakes > levels+1 {
			t.Errorf("ttl %v: looked at %d times from level %d", ttl, wakes, levels)
		}
	}
}

// TestWheelTouchMovesNothing: a touch forward leaves the record where it lies, and
// when its slot comes up it is filed for its new expiry.
func TestWheelTouchMovesNothing(t *testing.T) {
	m := newModel(t, epoch)
	r := m.add(epoch + 10)
	for i := range driver.Instant(1000) {
		m.touch(r, epoch+10+i)
	}
	if next := m.wheel.next(); next != epoch+10 {
		t.Errorf("after touches the slot comes up at %d, want %d", next-epoch, 10)
	}
	m.advance(epoch+10, 8)
	if next := m.wheel.next(); next <= epoch+10 || next > epoch+1009 {
		t.Errorf("filed anew, the slot comes up at %d", next-epoch)
	}
	m.advance(epoch+1008, 8)
	m.advance(epoch+1009, 8)
	if len(m.records) != 0 {
		t.Error("the record is still filed")
	}
}

// TestWheelKeepsUp: time passes in an empty wheel too, or what is filed next would
// have to come down all levels.
func TestWheelKeepsUp(t *testing.T) {
	m := newModel(t, epoch)
	m.advance(epoch.Add(500*24*time.Hour)|(wheelSlots-1)-10, 8)
	for i := range driver.Instant(wheelStripes) {
		if r := m.add(m.now + 1 + i); r.level != 0 {
			t.Errorf("a record that expires in %d ms lies on level %d", 1+i, r.level)
		}
	}
}

func TestWheelClosed(t *testing.T) {
	m := newModel(t, epoch)
	filed := m.add(epoch + 10)
	m.wheel.close()
	late := &record[int]{level: unfiled}
	late.setExpiry(epoch + 20)
	if at := m.wheel.swap(nil, late); at != driver.MaxInstant {
		t.Errorf("a closed wheel files a record for %d", at)
	}
	m.wheel.remove(filed)
	if next := m.wheel.next(); next != driver.MaxInstant {
		t.Errorf("a closed wheel comes up at %d", next)
	}
}

func TestWheelTightens(t *testing.T) {
	m := newModel(t, epoch)
	r := m.add(epoch.Add(400 * 24 * time.Hour))
	for _, ttl := range []time.Duration{30 * 24 * time.Hour, time.Hour, time.Second, 2 * time.Millisecond} {
		m.touch(r, epoch.Add(ttl))
		m.check()
		if next := m.wheel.next(); next > epoch.Add(ttl) {
			t.Errorf("after tightening to %v the wheel comes up %d ms on", ttl, next-epoch)
		}
	}
	m.advance(epoch+1, 8)
	m.advance(epoch+2, 8)
	if len(m.records) != 0 {
		t.Error("the record is still filed")
	}
}

func TestWheelRemove(t *testing.T) {
	m := newModel(t, epoch)
	var rs []*record[int]
	for i := range 100 { // a hundred in a few slots
		rs = append(rs, m.add(epoch.Add(time.Duration(i%3)*time.Hour)))
	}
	rand.Shuffle(len(rs), func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
	for _, r := range rs {
		m.remove(r)
		if len(m.records) > 0 {
			m.wheel.next()
		}
		m.remove(r) // once more changes nothing
	}
	if next := m.wheel.next(); next != driver.MaxInstant {
		t.Errorf("the empty wheel comes up at %d", next)
	}
}

// FuzzWheel runs random operations, one per four bytes, against the plain model.
func FuzzWheel(f *testing.F) {
	f.Add(uint64(epoch), []byte("0aaa0bbb0ccc3zzz3zzz1abc2abc3\x00\x00\x0040003~~~"))
	f.Add(uint64(0), []byte{0, 1, 0, 0, 0, 5, 0, 0, 3, 2, 0, 0, 1, 0, 1, 9, 3, 60, 0, 0, 3, 62, 0, 0})
	f.Add(uint64(math.MaxInt64-5), []byte{0, 1, 0, 0, 0, 250, 255, 0, 3, 200, 0, 0, 3, 255, 255, 0})
	rng := rand.New(rand.NewPCG(7, 7))
	for range 20 {
		ops := make([]byte, 4*200)
		for i := range ops {
			ops[i] = byte(rng.Uint32())
		}
		f.Add(rng.Uint64()>>rng.IntN(60), ops)
	}
	f.Fuzz(func(t *testing.T, start uint64, ops []byte) {
		m := newModel(t, driver.Instant(start>>1))
		var rs []*record[int]
		for ; len(ops) >= 4; ops = ops[4:] {
			a, b := ops[1], ops[2]
			// Distances of all magnitudes, some of them behind now.
			ahead := driver.Instant(a) << (b % 56) >> 4
			if b&0xc0 == 0xc0 {
				ahead = -ahead
			}
			expiry := m.now + ahead
			if ahead > 0 && expiry < m.now {
				expiry = driver.MaxInstant
			}
			var r *record[int]
			if len(rs) > 0 {
				r = rs[int(ops[3])%len(rs)]
			}
			switch op := ops[0] % 5; {
			case op == 0 || r == nil:
				rs = append(rs, m.add(expiry))
			case op == 1 && (m.records[r] || r.expiry() == 0):
				m.touch(r, expiry)
			case op == 2:
				m.remove(r)
				rs = remove(rs, r)
			case op == 3:
				m.advance(expiry, 1+int(ops[3]))
			case op == 4 && m.records[r]: // replaced by another
				other := &record[int]{level: unfiled, stripe: r.stripe}
				other.setExpiry(expiry)
				m.filed(other, m.wheel.swap(r, other))
				delete(m.records, r)
				rs = remove(rs, r)
				if expiry != 0 {
					m.records[other] = true
				}
				rs = append(rs, other)
			}
		}
		m.advance(m.now, 16)
		m.advance(driver.MaxInstant, 16)
		if len(m.records) != 0 {
			t.Fatalf("%d records left at the end of time", len(m.records))
		}
	})
}

func remove(rs []*record[int], r *record[int]) []*record[int] {
	for i := range rs {
		if rs[i] == r {
			return append(rs[:i], rs[i+1:]...)
		}
	}
	return rs
}
