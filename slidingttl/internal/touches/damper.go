package touches

import (
	"errors"
	"hash/maphash"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

// damper remembers when this process last brought down the expiry of a key. Without it two
// processes with different policies would write a record by turns on every read. Its size is
// fixed: of two keys that share a slot the earlier is forgotten, and may come down too soon.
type damper struct {
	seed maphash.Seed

	mu    sync.Mutex // guards slots
	slots []lowering // by hash of the key; none until one is asked for
}

// lowering is when the expiry of a key was brought down last, and when before that. Where the
// last failed the one before counts again, for the window of another policy may be longer.
type lowering struct {
	hash       uint64
	at, before driver.Instant
}

const damperSize = 1 << 16 // at 24 bytes each

func (d *damper) slot(key string) (l *lowering, hash uint64) {
	if d.slots == nil {
		d.slots = make([]lowering, damperSize)
	}
	hash = maphash.String(d.seed, key)
	return &d.slots[hash%damperSize], hash
}

// claim notes that the expiry of key is brought down at now, and reports whether it may be:
// not less than window after the last time. ask: it notes nothing.
func (d *damper) claim(key string, now, window driver.Instant, ask bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, hash := d.slot(key)
	known := l.hash == hash && l.at != 0
	if known && now-l.at < window {
		return false
	}
	switch {
	case ask:
	case known:
		l.at, l.before = now, l.at
	default:
		*l = lowering{hash: hash, at: now}
	}
	return true
}

// release takes the claim of at back, unless there was another since.
func (d *damper) release(key string, at driver.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, hash := d.slot(key); l.hash == hash && l.at == at {
		l.at, l.before = l.before, 0
	}
}

// lowers reports whether life l of the record under key must be brought down now.
func (t *Touches) lowers(r *policy.Rules, key string, l driver.Life, now driver.Instant) bool {
	_, beyond := r.Lowered(l, now)
	if beyond && !t.lowering.claim(key, now, r.Window(), true) {
		t.Tally.Add(tally.Damped)
		return false
	}
	return beyond
}

// Lower returns a claim to bring down, by a write at now, the expiry of the record m under key.
//
// While it is held no other write brings that down; Lowered ends it. Zero: there is no claim,
// for m is nil, lies within the policy, or came down not long before.
func (t *Touches) Lower(r *policy.Rules, key string, m *driver.Meta, now driver.Instant) (claim driver.Instant) {
	if m == nil {
		return 0
	}
	if _, beyond := r.Lowered(m.Life, now); !beyond || !t.lowering.claim(key, now, r.Window(), false) {
		return 0
	}
	return now
}

// Lowered says that the write of a claim, if there is one, has ended with err.
//
// lowers says whether in the end it was to lower the expiry. A write that may have landed is
// taken to have.
func (t *Touches) Lowered(key string, claim driver.Instant, lowers bool, err error) {
	switch {
	case claim == 0:
	case lowers && err == nil:
		t.Tally.Add(tally.Lowered)
	case !lowers || !errors.Is(err, driver.ErrAmbiguous):
		t.lowering.release(key, claim)
	}
}
