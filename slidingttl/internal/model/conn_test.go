package model

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var (
	errDown = errors.New("store is down")
	errGone = fmt.Errorf("%w: %w", errDown, driver.ErrAmbiguous)
)

// conn is a process's connection to the simulated backend: calls take time both ways, may
// fail, and may land whatever their caller is told.
type conn struct {
	*world
	p *process
	i *incarnation
}

func (c *conn) Resolution() time.Duration { return c.step }

// call runs f in the backend, where the call arrives after a while, and returns its error
// after another while.
func (c *conn) call(ctx context.Context, name, key string, write bool, f func() error) error {
	o := c.op(ctx)
	c.mu.Lock()
	d := c.luck(c.p.id, name, key)
	c.i.busy[key]++
	if name == "get" || name == "latest" || name == "read touch" {
		o.reads++
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.i.busy[key]--
		c.i.ended[key] = time.Now()
		c.mu.Unlock()
	}()
	there, back := d.upTo(c.trip), d.upTo(c.trip)
	if d.oneIn(30) {
		there += d.upTo(c.slow)
	}
	if d.oneIn(30) {
		back += d.upTo(c.slow)
	}
	fails := c.faults > 0 && d.oneIn(c.faults) ||
		name == "touch" && c.outages > 0 && time.Duration(time.Now().UnixNano())/c.outages%2 == 1
	loses := write && c.lost > 0 && d.oneIn(c.lost)
	sent := time.Now()
	if err := sleep(ctx, there); err != nil {
		c.mu.Lock()
		o.fault(name)
		c.mu.Unlock()
		if !write {
			return err
		}
		if d.oneIn(2) {
			// What was sent may arrive although nobody waits for it.
			c.late.Go(func() {
				time.Sleep(time.Until(sent.Add(there)))
				c.mu.Lock()
				defer c.mu.Unlock()
				c.note(key, "%d %s of %v, given up before: %v", c.p.id, name, o, f())
			})
		}
		return fmt.Errorf("%w: %w", driver.ErrAmbiguous, err)
	}
	c.mu.Lock()
	var err error
	if fails {
		err = errDown
		o.fault(name)
	} else if err = f(); loses {
		err = errGone
		o.fault(name)
	}
	c.note(key, "%d %s of %v: %v; answers in %v", c.p.id, name, o, err, back)
	c.mu.Unlock()
	if serr := sleep(ctx, back); serr != nil {
		c.mu.Lock()
		o.fault(name)
		c.mu.Unlock()
		if write {
			return fmt.Errorf("%w: %w", driver.ErrAmbiguous, serr)
		}
		return serr
	}
	return err
}

// landed is what a write returns. A write that was given up may still land, so its result is
// not read.
func landed[M any](m *M, err error) (M, error) {
	var none M
	if err != nil {
		return none, err
	}
	return *m, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// found is what a read sees of key.
func (c *conn) found(key string, s *state) (driver.Entry[value], error) {
	c.note(key, "  %d sees %v", c.p.id, s)
	if !s.present {
		return driver.Entry[value]{}, driver.ErrNotFound
	}
	c.i.read(key, s.Meta)
	return driver.Entry[value]{Value: s.value, Meta: s.Meta}, nil
}

func (c *conn) Get(ctx context.Context, key string) (e driver.Entry[value], err error) {
	err = c.call(ctx, "get", key, false, func() error {
		then := time.Now()
		if c.stale > 0 {
			if d := c.luck(c.p.id, "stale", key); d.oneIn(2) {
				then = then.Add(-d.upTo(c.stale))
			}
		}
		e, err = c.found(key, c.at(key, then))
		return err
	})
	return e, err
}

func (c *conn) Insert(ctx context.Context, key string, v value, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	o := c.op(ctx)
	c.mu.Lock()
	c.sent(key, now, o)
	c.checkFresh(c.p, o, key, v, life)
	c.mu.Unlock()
	err = c.call(ctx, "insert", key, true, func() error {
		if s := c.last(key); s.present && s.Alive(now) {
			return &driver.ConflictError{Found: s.Meta}
		}
		version = c.write(key, v, life, o, time.Time{})
		return nil
	})
	return landed(&version, err)
}

func (c *conn) Replace(ctx context.Context, key string, v value, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	o := c.op(ctx)
	c.mu.Lock()
	c.sent(key, now, o)
	lowered := c.checkOverwrite(c.i, o, key, v, was, life, floor(c.p.now()))
	tightened := c.i.tighten(key, lowered)
	c.mu.Unlock()
	err = c.call(ctx, "replace", key, true, func() error {
		if err := c.match(key, was, now); err != nil {
			return err
		}
		c.checkFrom(key, v)
		version = c.write(key, v, life, o, lowered)
		return nil
	})
	tightened(err)
	return landed(&version, err)
}

func (c *conn) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	o := c.op(ctx)
	c.mu.Lock()
	c.sent(key, now, o)
	lowered := c.checkTouch(c.i, o, key, was, life)
	tightened := c.i.tighten(key, lowered)
	done := c.i.touch(o, key)
	c.mu.Unlock()
	defer done()
	err = c.call(ctx, "touch", key, true, func() error {
		if err := c.match(key, was, now); err != nil {
			return err
		}
		s := *c.last(key)
		s.lowered = lowered
		version = c.retouch(key, &s, life, o)
		return nil
	})
	tightened(err)
	return landed(&version, err)
}

func (c *conn) Delete(ctx context.Context, key string) error {
	return c.call(ctx, "delete", key, true, func() error {
		if o := c.op(ctx); o.name != "delete" && o.name != "delete multi" {
			c.violated(5, key, "a %v deletes", o)
		}
		c.put(key, state{by: c.op(ctx).String()})
		return nil
	})
}

// match returns why a write planned for was cannot land.
func (c *conn) match(key string, was driver.Meta, now driver.Instant) error {
	switch s := c.last(key); {
	case !s.present || !s.Alive(now):
		return driver.ErrNotFound
	case s.Meta != was:
		return &driver.ConflictError{Found: s.Meta}
	}
	return nil
}

// retouch stores life beside the value of s.
func (c *conn) retouch(key string, s *state, life driver.Life, o *op) driver.Version {
	s.Life, s.by = life, o.String()
	if c.bumps {
		c.version++
		s.Version = c.version
	}
	c.i.landed(key, *s)
	return s.Version
}

// write stores v.
func (c *conn) write(key string, v value, life driver.Life, o *op, lowered time.Time) driver.Version {
	c.version++
	c.i.landed(key, state{
		present: true, value: v, Meta: driver.Meta{Life: life, Version: c.version},
		by: o.String(), lowered: lowered,
	})
	return c.version
}
