package slidingttl

import (
	"errors"
	"hash/maphash"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// damper remembers the keys whose expiry this process has brought down, so that
// two processes with different policies do not write a record by turns on every
// read. A write claims its key before it is sent, so that no other is sent meanwhile.
type damper struct {
	seed maphash.Seed

	mu    sync.Mutex       // guards the rest
	last  map[uint64]claim // by hash of the key
	most  driver.Instant   // the longest window
	sweep int              // size at which what is over is thrown out
}

// claim is when an expiry was brought down last, and when before that: a shorter window
// may have let the last come before a longer one had passed.
type claim struct{ last, before driver.Instant }

func newDamper() damper {
	return damper{seed: maphash.MakeSeed(), last: make(map[uint64]claim), sweep: 1024}
}

// damperSize bounds the keys of a damper, at 32 MB. A key that finds it full comes
// down later.
const damperSize = 1 << 20

// allows reports whether the expiry of key may be brought down at now: it has not
// been for as long as window.
func (d *damper) allows(key string, now, window driver.Instant) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.free(maphash.String(d.seed, key), now, window)
}

// claim is allows, and takes it that the expiry is brought down at now.
func (d *damper) claim(key string, now, window driver.Instant) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	hash := maphash.String(d.seed, key)
	if !d.free(hash, now, window) {
		return false
	}
	d.most = max(d.most, window)
	if len(d.last) >= d.sweep {
		d.throwOut(now)
	}
	d.last[hash] = claim{now, d.last[hash].last}
	return true
}

// release takes the claim of at back, unless another has followed.
func (d *damper) release(key string, at driver.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	hash := maphash.String(d.seed, key)
	if c := d.last[hash]; c.last == at {
		d.last[hash] = claim{last: c.before}
	}
}

func (d *damper) free(hash uint64, now, window driver.Instant) bool {
	if c, ok := d.last[hash]; ok {
		return c.last == 0 || after(c.last, window) <= now
	}
	if len(d.last) >= damperSize {
		d.throwOut(now)
	}
	return len(d.last) < damperSize
}

func (d *damper) throwOut(now driver.Instant) {
	for key, c := range d.last {
		if after(c.last, d.most) <= now {
			delete(d.last, key)
		}
	}
	d.sweep = max(1024, 2*len(d.last))
}

// tight reports whether life l of the record under key is to be brought down, now.
func (t *toucher) tight(r *rules, key string, l driver.Life, now driver.Instant) bool {
	_, beyond := r.lowered(l, now)
	return beyond && t.lowering.allows(key, now, r.window)
}

// lower is the life that the record under key is brought down to now, for a write that
// tells lowered how it ended, and the claim for that; l itself and zero where it is not
// to be.
func (t *toucher) lower(r *rules, key string, l driver.Life, now driver.Instant) (life driver.Life, claim driver.Instant) {
	if life, beyond := r.lowered(l, now); beyond && t.lowering.claim(key, now, r.window) {
		return life, now
	}
	return l, 0
}

// lowered takes note of how a write ended that was to bring down the expiry of the
// record under key, by that claim. One that may have landed is taken to have.
func (t *toucher) lowered(key string, claim driver.Instant, err error) {
	switch {
	case err == nil:
		t.stats.add(cLowered)
	case !errors.Is(err, ErrAmbiguous):
		t.lowering.release(key, claim)
	}
}
