package drivertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// worldBrokens work as long as clocks agree, answers arrive and no other program writes.
var worldBrokens = []broken{
	{"decides before a write leaves", "late/replaced", func(d *twisted) {
		d.arrives = func(c *call) {
			if m, ok := d.stored(c.Key); ok {
				c.Was = m
			}
		}
	}},
	{"judges a late write by its caller's time", "late/dead", func(d *twisted) {
		d.late = true
		d.arrives = func(*call) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.trusts = true
		}
	}},
	{"counts a life from when the write arrives", "late/bounded", func(d *twisted) {
		d.reference.late, d.reference.trusts, d.clockless = true, true, true
		d.arrives = func(c *call) { c.Life.ExpiresAt += max(0, driver.Floor(time.Now())-c.Now) }
	}},
	{"takes a broken connection for an answer", "resent/unsent", func(d *twisted) {
		d.reference.lost = func(string, func()) error { return nil }
	}},
	{"believes what a second attempt is told", "resent/alone", func(d *twisted) {
		d.reference.lost = func(_ string, write func()) error {
			write()
			return nil
		}
	}},
	{"deletes again what another has written since", "resent/beside-another", func(d *twisted) {
		d.reference.lost = func(call string, write func()) error {
			if call == callDelete {
				write()
				return nil
			}
			return driver.ErrAmbiguous
		}
	}},
	{"ends a scan at a key that it cannot name", "hostile/scan", func(d *twisted) {
		d.pages(func(p *driver.Page) {
			if i := slices.IndexFunc(p.Records, func(s driver.Scanned) bool { return s.Key == "" }); i >= 0 {
				p.Records, p.Next = p.Records[:i], ""
			}
		})
	}},
	{"passes over a key that it refuses", "hostile/scan", func(d *twisted) {
		d.pages(func(p *driver.Page) {
			kept := slices.DeleteFunc(p.Records, func(s driver.Scanned) bool { return s.Key == "" })
			p.Passed, p.Records = len(p.Records)-len(kept), kept
		})
	}},
	{"fails a batch for a created_at out of bounds", "hostile/batch", func(d *twisted) {
		d.after("get multi", func(c *call) {
			for _, e := range c.Entries {
				if e.CreatedAt > driver.MaxInstant/2 {
					c.Entries, c.Err = nil, errors.New("out of bounds")
				}
			}
		})
	}},
	{"deletes by what stands before a NUL", "hostile/calls", func(d *twisted) {
		d.before("delete", func(c *call) { c.Key, _, _ = strings.Cut(c.Key, "\x00") })
	}},
	{"keeps for ever what comes from the future", "hostile/store", func(d *twisted) {
		d.before("touch", func(c *call) {
			if c.Was.CreatedAt > c.Now.Add(365*day) {
				c.Life.ExpiresAt = driver.MaxInstant
			}
		})
	}},
	{"sweeps up to a key that it cannot name", "hostile/sweep", func(d *twisted) {
		d.reference.late = true
		d.sweep = func(ctx context.Context) error {
			if _, ok := d.stored(""); ok {
				return nil
			}
			return d.reference.sweep(ctx)
		}
	}},
	{"has the process's clock", "apart/reads", func(d *twisted) {
		d.now = time.Now
	}},
	{"learns the store's time by reads alone", "apart/writes", func(d *twisted) {
		var known atomic.Bool
		d.now = func() time.Time {
			if known.Load() {
				return d.reference.time()
			}
			return time.Now()
		}
		d.all(func(c *call) { known.Store(true); d.do(c) }, "get", "read touch")
	}},
	{"asks for the store's time again by writes alone", "apart/reads", func(d *twisted) {
		learn := d.asksOnce()
		d.before("upsert", func(*call) { learn() })
	}},
	{"asks for the store's time again by reads alone", "apart/writes", func(d *twisted) {
		learn := d.asksOnce()
		d.before("get", func(*call) { learn() })
	}},
	{"asks for the store's time again after two minutes", "apart/reads", func(d *twisted) {
		learn, began := d.asksOnce(), time.Now()
		d.before("get", func(*call) {
			if time.Since(began) > 2*time.Minute {
				learn()
			}
		})
	}},
	{"does not compare clocks", "apart/checked", func(d *twisted) {
		d.clockless = true
		d.check = func(ctx context.Context) error {
			_, err := d.reference.Get(ctx, "any")
			if errors.Is(err, driver.ErrNotFound) {
				return nil
			}
			return err
		}
	}},
}

// asksOnce makes the driver ask for the store's time when it first needs it, and again only by learn.
func (d *twisted) asksOnce() (learn func()) {
	var ahead atomic.Int64
	learn = func() { ahead.Store(int64(time.Until(d.reference.time()))) }
	first := sync.OnceFunc(learn)
	d.now = func() time.Time {
		first()
		return time.Now().Add(time.Duration(ahead.Load()))
	}
	return learn
}

// armed reports whether the next write is to be stopped.
func (g *Gate) armed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.next != nil
}
