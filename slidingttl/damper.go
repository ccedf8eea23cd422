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
	until map[uint64]driver.Instant // by hash of the key
	sweep int                       // size at which what is over is thrown out
}

// damperSize bounds the keys of a damper, at 32 MB. A key that finds it full comes
// down later.
const damperSize = 1 << 20

// allows reports whether the expiry of key may be brought down at now.
func (d *damper) allows(key string, now driver.Instant) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.until == nil {
		return true
	}
	until, ok := d.until[maphash.String(d.seed, key)]
	if ok || len(d.until) < damperSize {
		return until <= now
	}
	d.throwOut(now)
	return len(d.until) < damperSize
}

// did remembers that the expiry of key was brought down at now, for as long as window.
func (d *damper) did(key string, now, window driver.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.until == nil {
		d.seed, d.until, d.sweep = maphash.MakeSeed(), make(map[uint64]driver.Instant), 1024
	}
	if len(d.until) >= d.sweep {
		d.throwOut(now)
	}
	d.until[maphash.String(d.seed, key)] = after(now, window)
}

func (d *damper) throwOut(now driver.Instant) {
	for key, until := range d.until {
		if until <= now {
			delete(d.until, key)
		}
	}
	d.sweep = max(1024, 2*len(d.until))
}
