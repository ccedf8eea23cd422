package model

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// inner is a process's view of the memory driver. Its calls do not block, but the goroutine
// that makes one may pause before it and after.
type inner struct {
	*memory.Driver[value]
	conn *conn
}

// pause delays a call now and then.
func (m *inner) pause(name, key string) {
	m.conn.mu.Lock()
	d := m.conn.luck(m.conn.p.id, name, key)
	m.conn.mu.Unlock()
	if d.oneIn(3) {
		time.Sleep(d.upTo(m.conn.trip))
	}
}

func (m *inner) Load(key string) (v *value, meta driver.Meta, at *atomic.Int64, err error) {
	m.pause("before load", key)
	c := m.conn
	c.mu.Lock()
	v, meta, at, err = m.Driver.Load(key)
	if err == nil {
		c.i.read(key, meta)
	}
	c.note(key, "%d load: %v %+v %v", c.p.id, v, meta, err)
	c.mu.Unlock()
	m.pause("after load", key)
	return v, meta, at, err
}

func (m *inner) Get(ctx context.Context, key string) (driver.Entry[value], error) {
	m.pause("before get", key)
	c := m.conn
	c.mu.Lock()
	e, err := m.Driver.Get(ctx, key)
	if err == nil {
		c.i.read(key, e.Meta)
	}
	c.note(key, "%d get: %v %v", c.p.id, e, err)
	c.mu.Unlock()
	m.pause("after get", key)
	return e, err
}

func (m *inner) Slide(ctx context.Context, key string, at *atomic.Int64, was, to driver.Instant) bool {
	o, c := m.conn.op(ctx), m.conn
	c.mu.Lock()
	planned := *c.last(key)
	if planned.ExpiresAt == was {
		c.sent(key, floor(c.p.now()), o)
		c.checkTouch(c.i, o, key, planned.Meta, driver.Life{CreatedAt: planned.CreatedAt, ExpiresAt: to})
	}
	c.mu.Unlock()
	m.pause("before slide", key)
	c.mu.Lock()
	ok := m.Driver.Slide(ctx, key, at, was, to)
	if ok {
		s := *c.last(key)
		if !s.present || s.Meta != planned.Meta || s.ExpiresAt != was {
			c.violated(4, key, "%v slid another record than %+v: %+v", o, planned.Meta, s.Meta)
		}
		s.ExpiresAt, s.by = to, o.String()
		c.i.landed(key, s)
	}
	c.note(key, "%d slide to %d: %v", c.p.id, to, ok)
	c.mu.Unlock()
	m.pause("after slide", key)
	return ok
}

func (m *inner) Insert(ctx context.Context, key string, v value, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	o, c := m.conn.op(ctx), m.conn
	c.mu.Lock()
	c.sent(key, now, o)
	c.checkFresh(c.p, o, key, v, life)
	c.mu.Unlock()
	m.pause("before insert", key)
	c.mu.Lock()
	if version, err = m.Driver.Insert(ctx, key, v, life, now); err == nil {
		if s := c.last(key); s.present && s.Alive(now) && s.Alive(floor(time.Now())) {
			c.violated(6, key, "%v inserted over a live record", o)
		}
		m.wrote(key, v, life, version, o, time.Time{})
	}
	c.mu.Unlock()
	m.pause("after insert", key)
	return version, err
}

func (m *inner) Replace(ctx context.Context, key string, v value, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	o, c := m.conn.op(ctx), m.conn
	c.mu.Lock()
	c.sent(key, now, o)
	lowered := c.checkOverwrite(c.i, o, key, v, was, life, floor(c.p.now()))
	tightened := c.i.tighten(key, lowered)
	c.mu.Unlock()
	m.pause("before replace", key)
	c.mu.Lock()
	if version, err = m.Driver.Replace(ctx, key, v, was, life, now); err == nil {
		if merr := c.match(key, was, now); merr != nil {
			c.violated(6, key, "%v replaced another record than %+v: %v", o, was, merr)
		}
		c.checkFrom(key, v)
		m.wrote(key, v, life, version, o, lowered)
	}
	c.mu.Unlock()
	m.pause("after replace", key)
	tightened(err)
	return version, err
}

func (m *inner) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	o, c := m.conn.op(ctx), m.conn
	c.mu.Lock()
	c.sent(key, now, o)
	lowered := c.checkTouch(c.i, o, key, was, life)
	tightened := c.i.tighten(key, lowered)
	c.mu.Unlock()
	m.pause("before touch", key)
	c.mu.Lock()
	if version, err = m.Driver.Touch(ctx, key, was, life, now); err == nil {
		if merr := c.match(key, was, now); merr != nil {
			c.violated(4, key, "%v touched another record than %+v: %v", o, was, merr)
		}
		s := *c.last(key)
		s.Life, s.Version, s.by, s.lowered = life, version, o.String(), lowered
		c.i.landed(key, s)
	}
	c.mu.Unlock()
	m.pause("after touch", key)
	tightened(err)
	return version, err
}

func (m *inner) Upsert(ctx context.Context, key string, v value, known *driver.Meta, plan driver.Plan, now driver.Instant) (meta driver.Meta, err error) {
	o, c := m.conn.op(ctx), m.conn
	m.pause("before upsert", key)
	c.mu.Lock()
	var over *driver.Meta
	meta, err = m.Driver.Upsert(ctx, key, v, known, func(found *driver.Meta) (driver.Life, error) {
		if over = nil; found != nil {
			m := *found
			over = &m
			c.i.read(key, m)
		}
		return plan(found)
	}, now)
	if err == nil {
		var lowered time.Time
		if over == nil {
			c.checkFresh(c.p, o, key, v, meta.Life)
		} else {
			lowered = c.checkOverwrite(c.i, o, key, v, *over, meta.Life, floor(c.p.now()))
		}
		m.wrote(key, v, meta.Life, meta.Version, o, lowered)
	}
	c.mu.Unlock()
	m.pause("after upsert", key)
	return meta, err
}

func (m *inner) Delete(ctx context.Context, key string) error {
	c := m.conn
	m.pause("before delete", key)
	c.mu.Lock()
	err := m.Driver.Delete(ctx, key)
	c.put(key, state{by: m.conn.op(ctx).String()})
	c.note(key, "%d deleted: %v", c.p.id, err)
	c.mu.Unlock()
	m.pause("after delete", key)
	return err
}

func (m *inner) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	c := m.conn
	m.pause("before remove", key)
	c.mu.Lock()
	err := m.Driver.Remove(ctx, key, was, now)
	if err == nil {
		if merr := c.match(key, was, now); merr != nil {
			c.violated(6, key, "%v removed another record than %+v: %v", m.conn.op(ctx), was, merr)
		}
		c.put(key, state{by: m.conn.op(ctx).String()})
	}
	c.note(key, "%d removed: %v", c.p.id, err)
	c.mu.Unlock()
	m.pause("after remove", key)
	return err
}

// wrote logs what the memory driver has stored.
func (m *inner) wrote(key string, v value, life driver.Life, version driver.Version, o *op, lowered time.Time) {
	m.conn.i.landed(key, state{
		present: true, value: v, Meta: driver.Meta{Life: life, Version: version},
		by: o.String(), lowered: lowered,
	})
}
