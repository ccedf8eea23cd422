package touches

import (
	"errors"
	"hash/maphash"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

// damper remembers the keys whose expiry this process has brought down, so that two
// processes with different policies do not write a record by turns on every read. A
// write claims its key before it is sent, so that no other is sent meanwhile. Its size is
// fixed: of two keys that share a slot the earlier is forgotten, and may come down again
// too soon.
type damper struct {
	seed maphash.Seed

	mu    sync.Mutex // guards slots
	slots []claim    // by hash of the key; none until one is claimed
}

// claim is when the expiry of a key was brought down last, and when before that: a
// shorter window may have let the last come before a longer one had passed.
type claim struct {
	hash         uint64
	last, before driver.Instant
}

const damperSize = 1 << 16 // at 24 bytes each

func (d *damper) find(key string) (c *claim, hash uint64) {
	hash = maphash.String(d.seed, key)
	return &d.slots[hash%damperSize], hash
}

// claim takes it that the expiry of key is brought down at now, unless it has been in
// window before that. Only asked, it claims nothing.
func (d *damper) claim(key string, now, window driver.Instant, ask bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.slots == nil {
		if ask {
			return true
		}
		d.slots = make([]claim, damperSize)
	}
	c, hash := d.find(key)
	if c.hash == hash && c.last != 0 && now-c.last < window {
		return false
	}
	switch {
	case ask:
	case c.hash == hash:
		c.last, c.before = now, c.last
	default:
		*c = claim{hash: hash, last: now}
	}
	return true
}

// release takes the claim of at back, unless another has followed.
func (d *damper) release(key string, at driver.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, hash := d.find(key); c.hash == hash && c.last == at {
		c.last, c.before = c.before, 0
	}
}

// Lowers reports whether life l of the record under key may be brought down, now.
func (t *Touches) Lowers(r *policy.Rules, key string, l driver.Life, now driver.Instant) bool {
	_, beyond := r.Lowered(l, now)
	if beyond && !t.lowering.claim(key, now, r.Window(), true) {
		t.Tally.Add(tally.Damped)
		return false
	}
	return beyond
}

// Lower is the life that the record under key is brought down to now, for a write that
// tells Lowered how it ended, and the claim for that; l itself and zero where it is not
// to be.
func (t *Touches) Lower(r *policy.Rules, key string, l driver.Life, now driver.Instant) (life driver.Life, claim driver.Instant) {
	if life, beyond := r.Lowered(l, now); beyond && t.lowering.claim(key, now, r.Window(), false) {
		return life, now
	}
	return l, 0
}

// Lowered takes note of how a write ended that was to bring down the expiry of the record
// under key, by that claim. One that may have landed is taken to have.
func (t *Touches) Lowered(key string, claim driver.Instant, err error) {
	switch {
	case err == nil:
		t.Tally.Add(tally.Lowered)
	case !errors.Is(err, driver.ErrAmbiguous):
		t.lowering.release(key, claim)
	}
}
