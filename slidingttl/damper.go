package slidingttl

import (
	"hash/maphash"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// damper remembers the keys whose expiry this process has brought down, so that
// two processes with different policies do not write a record by turns on every
// read. Its zero value is ready for use.
type damper struct {
	mu    sync.Mutex // guards the rest
	seed  maphash.Seed
	last  map[uint64]driver.Instant // by hash of the key
	most  driver.Instant            // the longest window
	sweep int                       // size at which what is over is thrown out
}

// damperSize bounds the keys of a damper, at 32 MB. A key that finds it full comes
// down later.
const damperSize = 1 << 20

// allows reports whether the expiry of key may be brought down at now: it has not
// been for as long as window.
func (d *damper) allows(key string, now, window driver.Instant) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		return true
	}
	last, ok := d.last[maphash.String(d.seed, key)]
	if ok || len(d.last) < damperSize {
		return !ok || after(last, window) <= now
	}
	d.throwOut(now)
	return len(d.last) < damperSize
}

// did remembers that the expiry of key was brought down at now.
func (d *damper) did(key string, now, window driver.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		d.seed, d.last, d.sweep = maphash.MakeSeed(), make(map[uint64]driver.Instant), 1024
	}
	d.most = max(d.most, window)
	if len(d.last) >= d.sweep {
		d.throwOut(now)
	}
	d.last[maphash.String(d.seed, key)] = now
}

func (d *damper) throwOut(now driver.Instant) {
	for key, last := range d.last {
		if after(last, d.most) <= now {
			delete(d.last, key)
		}
	}
	d.sweep = max(1024, 2*len(d.last))
}
