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
		d.arriving(func(key string, was driver.Meta, life driver.Life, _ driver.Instant) (driver.Meta, driver.Life) {
			if m, ok := d.stored(key); ok {
				was = m
			}
			return was, life
		})
	}},
	{"judges a late write by its caller's time", "late/dead", func(d *twisted) {
		d.reference.late, d.reference.trusts = true, true
	}},
	{"counts a life from when the write arrives", "late/bounded", func(d *twisted) {
		d.reference.late, d.reference.trusts, d.clockless = true, true, true
		d.arriving(func(_ string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Meta, driver.Life) {
			life.ExpiresAt += max(0, driver.Floor(time.Now())-now)
			return was, life
		})
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
		d.getMulti = func(ctx context.Context, keys []string) (map[string]driver.Entry[Value], error) {
			found, err := d.reference.GetMulti(ctx, keys)
			for _, e := range found {
				if e.CreatedAt > driver.MaxInstant/2 {
					return nil, errors.New("out of bounds")
				}
			}
			return found, err
		}
	}},
	{"deletes by what stands before a NUL", "hostile/calls", func(d *twisted) {
		d.delete = func(ctx context.Context, key string) error {
			key, _, _ = strings.Cut(key, "\x00")
			return d.reference.Delete(ctx, key)
		}
	}},
	{"keeps for ever what comes from the future", "hostile/store", func(d *twisted) {
		d.touches(func(_ string, was *driver.Meta, life *driver.Life, now driver.Instant) bool {
			if was.CreatedAt > now.Add(365*day) {
				life.ExpiresAt = driver.MaxInstant
			}
			return false
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
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			known.Store(true)
			return d.reference.Get(ctx, key)
		}
		d.readTouch = func(ctx context.Context, key string, known2 *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[Value], bool, error) {
			known.Store(true)
			return d.reference.ReadTouch(ctx, key, known2, a, now)
		}
	}},
	{"asks for the store's time again by writes alone", "apart/reads", func(d *twisted) {
		learn := d.asksOnce()
		d.upsert = func(ctx context.Context, key string, v Value, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
			learn()
			return d.reference.Upsert(ctx, key, v, known, plan, now)
		}
	}},
	{"asks for the store's time again by reads alone", "apart/writes", func(d *twisted) {
		learn := d.asksOnce()
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			learn()
			return d.reference.Get(ctx, key)
		}
	}},
	{"asks for the store's time again after two minutes", "apart/reads", func(d *twisted) {
		learn, began := d.asksOnce(), time.Now()
		d.get = func(ctx context.Context, key string) (driver.Entry[Value], error) {
			if time.Since(began) > 2*time.Minute {
				learn()
			}
			return d.reference.Get(ctx, key)
		}
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

// arriving changes the record that a stopped touch or replace was planned for, and its life,
// when the write arrives.
func (d *twisted) arriving(change func(key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Meta, driver.Life)) {
	r := d.reference
	past := *r // the gate
	past.gate = new(Gate)
	stop := func(ctx context.Context, key string, was *driver.Meta, life *driver.Life, now driver.Instant, write func()) error {
		armed := r.gate.armed()
		return r.sent(ctx, callReplace, func() {
			if armed {
				*was, *life = change(key, *was, *life, now)
			}
			write()
		})
	}
	d.touch = func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
		lost := stop(ctx, key, &was, &life, now, func() { version, err = past.Touch(ctx, key, was, life, now) })
		return version, errors.Join(lost, err)
	}
	d.replace = func(ctx context.Context, key string, v Value, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
		lost := stop(ctx, key, &was, &life, now, func() { version, err = past.Replace(ctx, key, v, was, life, now) })
		return version, errors.Join(lost, err)
	}
}

// armed reports whether the next write is to be stopped.
func (g *Gate) armed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.next != nil
}
