package touches

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func meta(expires driver.Instant) driver.Meta {
	return driver.Meta{Life: driver.Life{CreatedAt: 1, ExpiresAt: expires}, Version: 1}
}

// An answer that was under way while a touch landed says nothing later than that.
func TestMemoKeepsALandedTouch(t *testing.T) {
	was, is, later := meta(10), meta(20), meta(30)
	served := func(m *Memo, since uint64) bool {
		return m.landedSince(&Access{Key: "k", Rules: minute, Since: since}).result == Shared
	}
	m := NewMemo(16)
	m.Read("k", &was, m.Clock(), 0, minute)
	before := m.Clock()
	m.Touched("k", was, is, before, 0, true)
	after := m.Clock()
	for _, c := range []struct {
		text   string
		read   driver.Meta
		since  uint64
		known  driver.Meta
		served bool
	}{
		{"an answer from before", was, before, is, true},
		{"the touch's own record", is, after, is, true},
		{"a later answer", later, after, later, false},
	} {
		m.Read("k", &c.read, c.since, 0, minute)
		if got := m.Known("k"); got == nil || *got != c.known || served(m, before) != c.served {
			t.Errorf("%s leaves %+v, of which a touch serves the accesses before it: %v", c.text, got, served(m, before))
		}
	}
	m.Touched("k", was, is, before, 0, true)
	if since := m.Clock(); served(m, since) {
		t.Error("a touch serves a read that began after it")
	}
}

// Keys that fall into one slot evict each other, and none is taken for another.
func TestMemoOfOneSlot(t *testing.T) {
	m := NewMemo(1)
	a, b := meta(10), meta(20)
	m.Read("a", &a, m.Clock(), 0, minute)
	m.Touched("b", a, b, m.Clock(), 0, true)
	if m.Known("a") != nil || m.Known("b") == nil || *m.Known("b") != b {
		t.Fatalf("%+v and %+v", m.Known("a"), m.Known("b"))
	}
	m.Read("a", &a, 0, 0, minute) // the touch of b says nothing of a
	if m.Known("b") != nil || m.Known("a") == nil || *m.Known("a") != a {
		t.Errorf("%+v and %+v", m.Known("a"), m.Known("b"))
	}
	if got := m.Forget("b"); got != nil || m.Known("a") == nil {
		t.Errorf("Forget of another key returns %+v and leaves %+v", got, m.Known("a"))
	}
	same := b
	m.Read("b", &same, m.Clock(), 0, minute)
	if m.Known("a") != nil {
		t.Error("a is known of b's slot")
	}
}

// A remembered key stays the memo's own copy, and never becomes a caller's string, which may be long.
func TestMemoKeepsNoCallersString(t *testing.T) {
	m := NewMemo(16)
	for expires := range driver.Instant(3) {
		key, is := strings.Clone("key"), meta(10+expires)
		if m.Read(key, &is, m.Clock(), 0, minute); *m.Known("key") != is || unsafe.StringData(m.find("key").key) == unsafe.StringData(key) {
			t.Errorf("read %d: it remembers %+v by the caller's string", expires, m.Known("key"))
		}
	}
}

// What a key was before it was forgotten is not known after that, not even while a late answer is being
// remembered.
func TestMemoNeverKnowsWhatIsForgotten(t *testing.T) {
	m := NewMemo(16)
	is := meta(10)
	for _, remember := range []func(since uint64){
		func(since uint64) { m.Wrote("k", is, since, 0, false) },
		func(since uint64) { m.Read("k", &is, since, 0, minute) },
	} {
		for range 10_000 {
			since := m.Clock()
			m.Forget("k")
			done := make(chan struct{})
			go func() {
				remember(since)
				close(done)
			}()
			for !isClosed(done) {
				if m.Known("k") != nil {
					t.Fatal("it is known")
				}
			}
		}
	}
}

// Two answers at once can put a key into both of its slots. It is forgotten in both.
func TestMemoForgetsBothSlots(t *testing.T) {
	m, key := NewMemo(1<<10), "k"
	first, second := m.both(m.hash(key))
	for first == second {
		key += "k"
		first, second = m.both(m.hash(key))
	}
	for _, s := range []*atomic.Pointer[remembered]{first, second} {
		r := &remembered{key: key, meta: meta(10)}
		r.valid.Store(true)
		s.Store(r)
	}
	m.Deleting(key)()
	if known := m.Known(key); known != nil {
		t.Errorf("%+v is known after its deletion", known)
	}
}

// An answer that was forgotten stays so beside one that was forgotten earlier.
func TestForgottenStaysForgotten(t *testing.T) {
	var g gone
	g.forget(7)
	if g.forget(3); !g.after(6) || g.after(7) {
		t.Errorf("forgotten before %d, want 7", g.at.Load())
	}
}

// A read that shows what a touch left says when that was stored, and takes nothing of what is known of the touch.
func TestMemoKeepsATouchThatIsRead(t *testing.T) {
	was, is := meta(200_000), meta(100_000)
	m := NewMemo(16)
	before := m.Clock()
	m.Touched("k", was, is, before, 0, true)
	m.Read("k", &is, m.Clock(), 60_000, minute) // by then no process lowers it
	if _, at := m.KnownAt("k"); at != 60_000 {
		t.Errorf("it is known at %d", at)
	}
	if o := m.landedSince(&Access{Key: "k", Rules: minute, Since: before}); o.Meta != is || o.Replaced != was {
		t.Errorf("the touch is %+v", o)
	}
	m.Read("k", &was, m.Clock(), 61_000, minute) // stale
	if known := m.Known("k"); *known != is {
		t.Errorf("a stale read makes that %+v", known)
	}
}

// A read that began before a write lowered the expiry does not replace what that wrote, and is not remembered in its place.
func TestReadBeforeALowering(t *testing.T) {
	for _, evicted := range []bool{false, true} {
		m := NewMemo(1)
		since := m.Clock()
		m.Wrote("k", meta(10), since, 0, true)
		if evicted {
			m.Wrote("another", meta(1), m.Clock(), 0, false)
			m.lowered("k", true)
		}
		old := meta(100)
		m.Read("k", &old, since, 0, minute)
		if known := m.Known("k"); known != nil && known.ExpiresAt == old.ExpiresAt {
			t.Errorf("evicted %v: %+v is remembered", evicted, *known)
		}
	}
}

// Deletions under way keep few other keys from being remembered.
func TestMemoBesideDeletions(t *testing.T) {
	m := NewMemo(1 << 16)
	for i := range 3000 {
		defer m.Deleting(fmt.Sprint("deleted", i))()
	}
	known := 0
	for i := range 1000 {
		key := fmt.Sprint("kept", i)
		if m.Read(key, &driver.Meta{}, m.Clock(), 0, minute); m.Known(key) != nil {
			known++
		}
	}
	if known < 900 {
		t.Errorf("of 1000 keys %d are remembered", known)
	}
}
