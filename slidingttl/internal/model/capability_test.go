package model

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The optional capabilities, one type each, for stores that have them.
type (
	batcher    struct{ c *conn }
	upserter   struct{ c *conn }
	overwriter struct{ c *conn }
	remover    struct{ c *conn }
	clock      struct{ c *conn }
	latest     struct{ c *conn }
	decider    struct{ c *conn }
	pairer     struct{ c *conn }
)

// GetMulti implements driver.BatchGetter: one trip, in which each key is read at its own
// moment.
func (b batcher) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[value], error) {
	found := make(map[string]driver.Entry[value])
	for _, key := range keys {
		if _, ok := found[key]; ok {
			continue
		}
		e, err := b.c.Get(ctx, key)
		switch {
		case errors.Is(err, driver.ErrNotFound):
		case err != nil:
			return found, err
		default:
			found[key] = e
		}
	}
	return found, nil
}

// Upsert implements driver.Upserter.
func (u upserter) Upsert(ctx context.Context, key string, v value, _ *driver.Meta, plan driver.Plan, now driver.Instant) (m driver.Meta, err error) {
	c, o := u.c, u.c.op(ctx)
	err = c.call(ctx, "upsert", key, true, func() error {
		var found *driver.Meta
		if s := c.last(key); s.present && s.Alive(now) {
			meta := s.Meta
			found = &meta
			c.i.read(key, meta)
		}
		life, err := plan(found)
		if err != nil {
			return err
		}
		var lowered time.Time
		if found == nil {
			c.checkFresh(c.p, o, key, v, life)
		} else {
			lowered = c.checkOverwrite(c.i, o, key, v, *found, life, floor(c.p.now()))
		}
		m = driver.Meta{Life: life, Version: c.write(key, v, life, o, lowered)}
		return nil
	})
	if err != nil { // it may have been sent to lower the expiry, even if nothing called the plan
		c.mu.Lock()
		c.i.refused[key] = time.Now()
		c.mu.Unlock()
	}
	return landed(&m, err)
}

// Overwrite implements driver.Overwriter.
func (w overwriter) Overwrite(ctx context.Context, key string, v value, newLife driver.Life, a driver.Access, now driver.Instant) (m driver.Meta, err error) {
	c, o := w.c, w.c.op(ctx)
	c.mu.Lock()
	c.sent(key, now, o)
	c.checkFresh(c.p, o, key, v, newLife)
	c.mu.Unlock()
	err = c.call(ctx, "overwrite", key, true, func() error {
		s, life := c.last(key), newLife
		if s.present && s.Alive(now) {
			if s.CreatedAt == 0 || s.ExpiresAt == 0 {
				return &driver.ConflictError{Found: s.Meta}
			}
			if s.CreatedAt.Add(time.Duration(a.Most)*time.Millisecond) > now {
				life, _ = a.Touch(s.Life)
				c.checkOverwrite(c.i, o, key, v, s.Meta, life, now)
			}
		}
		m = driver.Meta{Life: life, Version: c.write(key, v, life, o, time.Time{})}
		return nil
	})
	return landed(&m, err)
}

// Remove implements driver.Remover.
func (r remover) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	o := r.c.op(ctx)
	return r.c.call(ctx, "remove", key, true, func() error {
		if o.name != "delete entry" {
			r.c.violated(5, key, "a %v removes", o)
		}
		if err := r.c.match(key, was, now); err != nil {
			return err
		}
		r.c.put(key, state{by: o.String()})
		return nil
	})
}

// Now implements driver.Clock.
func (k clock) Now() time.Time { return k.c.p.now() }

// Bounds implements driver.Clock.
func (k clock) Bounds() (earliest, latest driver.Instant) {
	now := k.c.p.now()
	return driver.Floor(now) - 3, driver.Ceil(now) + driver.Instant(coarse/ms)
}

// coarse is how far the later of a clock's bounds may be ahead of the time.
const coarse = 5 * ms

// Latest implements driver.Latest.
func (l latest) Latest(ctx context.Context, key string) (e driver.Entry[value], err error) {
	err = l.c.call(ctx, "latest", key, false, func() error {
		e, err = l.c.found(key, l.c.last(key))
		return err
	})
	return e, err
}

// ReadTouch implements driver.ReadToucher, as a store whose server decides.
func (d decider) ReadTouch(ctx context.Context, key string, _ *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[value], bool, error) {
	return d.c.readTouch(ctx, key, now, func(s *state) (driver.Life, bool) { return a.Touch(s.Life) })
}

// ReadTouch implements driver.ReadToucher, as a store to which a read and a touch of
// what is remembered are sent together.
func (p pairer) ReadTouch(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[value], bool, error) {
	return p.c.readTouch(ctx, key, now, func(s *state) (driver.Life, bool) {
		if known == nil || s.Meta != *known {
			return driver.Life{}, false
		}
		return a.Touch(known.Life)
	})
}

func (c *conn) readTouch(ctx context.Context, key string, now driver.Instant, plan func(*state) (driver.Life, bool)) (driver.Entry[value], bool, error) {
	var answer struct {
		e       driver.Entry[value]
		touched bool
	}
	o := c.op(ctx)
	c.mu.Lock()
	done := c.i.touch(o, key)
	c.mu.Unlock()
	defer done()
	err := c.call(ctx, "read touch", key, true, func() error {
		s := *c.last(key)
		if s.present && s.Alive(now) {
			if life, due := plan(&s); due {
				answer.touched = true
				c.sent(key, now, o)
				s.lowered = c.checkTouch(c.i, o, key, s.Meta, life)
				c.retouch(key, &s, life, o)
			}
		}
		var err error
		answer.e, err = c.found(key, &s)
		return err
	})
	is, err := landed(&answer, err)
	return is.e, is.touched, err
}

// dial returns the driver that the store of an incarnation is given.
func (w *world) dial(p *process, i *incarnation) driver.Driver[value] {
	c := &conn{w, p, i}
	switch w.store {
	case batch:
		return struct {
			*conn
			batcher
		}{c, batcher{c}}
	case upserts:
		return struct {
			*conn
			batcher
			upserter
			remover
		}{c, batcher{c}, upserter{c}, remover{c}}
	case clocked:
		return struct {
			*conn
			clock
		}{c, clock{c}}
	case stale:
		return struct {
			*conn
			batcher
			latest
		}{c, batcher{c}, latest{c}}
	case decides:
		return struct {
			*conn
			overwriter
			decider
		}{c, overwriter{c}, decider{c}}
	case pairs:
		return struct {
			*conn
			batcher
			pairer
		}{c, batcher{c}, pairer{c}}
	case local:
		return &inner{Driver: w.memory, conn: c}
	}
	return c
}
