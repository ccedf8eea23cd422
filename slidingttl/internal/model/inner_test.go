package model

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// inner is a process's view of the memory driver. Its calls do not block, but the goroutine
// that makes one may pause before it and after.
type inner struct{ *conn }

// pause delays a call now and then.
func (m *inner) pause(name, key string) {
	m.mu.Lock()
	d := m.luck(m.p.id, name, key)
	m.mu.Unlock()
	if d.oneIn(3) {
		time.Sleep(d.upTo(m.trip))
	}
}

func (m *inner) Load(key string) (v *value, meta driver.Meta, at *atomic.Int64, err error) {
	m.pause("before load", key)
	c := m.conn
	c.mu.Lock()
	v, meta, at, err = m.memory.Load(key)
	if err == nil {
		c.i.read(key, meta)
	}
	c.note(key, "%d load: %v %+v %v", c.p.id, v, meta, err)
	c.mu.Unlock()
	m.pause("after load", key)
	return v, meta, at, err
}

// answer answers k.
func (m *inner) answer(k *call) {
	o, sent := m.op(k.Ctx), *k
	lowered, done := m.send(o, k)
	m.pause("before "+k.Op, k.Key)
	m.mu.Lock()
	var over *driver.Meta
	sent.Plan = func(found *driver.Meta) (driver.Life, error) {
		if over = nil; found != nil {
			meta := *found
			over = &meta
			m.i.read(k.Key, meta)
		}
		return k.Plan(found)
	}
	was := *m.last(k.Key)
	fakestore.Forward[value](m.memory, &sent)
	k.Entry, k.Err = sent.Entry, sent.Err
	m.note(k.Key, "%d %s: %v %v", m.p.id, k.Op, k.Entry, k.Err)
	switch {
	case k.Err != nil:
	case k.Reads():
		m.i.read(k.Key, k.Entry.Meta)
	default:
		m.agree(o, k, &was)
		is := &driver.Entry[value]{Value: k.Value, Meta: driver.Meta{Life: k.Life, Version: k.Entry.Version}}
		switch k.Op {
		case fakestore.Touch:
			is.Value = was.value
		case fakestore.Upsert:
			is.Life = k.Entry.Life
		case fakestore.Delete, fakestore.Remove:
			is = nil
		}
		m.landed(o, k, over, is, lowered)
	}
	m.mu.Unlock()
	m.pause("after "+k.Op, k.Key)
	done(k.Err)
}

// agree checks that k, which the memory driver has carried out over was, could land there.
func (m *inner) agree(o *op, k *call, was *state) {
	planned := was.present && was.Alive(k.Now) && was.Meta == k.Was
	switch k.Op {
	case fakestore.Insert:
		if was.present && was.Alive(k.Now) && was.Alive(floor(time.Now())) {
			m.violated(6, k.Key, "%v inserted over a live record", o)
		}
	case fakestore.Replace, fakestore.Remove:
		if !planned {
			m.violated(6, k.Key, "%v: %s landed on another record than %+v: %+v", o, k.Op, k.Was, was)
		}
	case fakestore.Touch:
		if !planned {
			m.violated(4, k.Key, "%v touched another record than %+v: %+v", o, k.Was, was)
		}
	}
}

// The clock is the memory driver's.
func (m *inner) Now() time.Time                            { return m.memory.Now() }
func (m *inner) Next() driver.Instant                      { return m.memory.Next() }
func (m *inner) Bounds() (earliest, latest driver.Instant) { return m.memory.Bounds() }

func (m *inner) Slide(ctx context.Context, key string, at *atomic.Int64, was, to driver.Instant) bool {
	o, c := m.op(ctx), m.conn
	c.mu.Lock()
	planned := *c.last(key)
	if planned.ExpiresAt == was {
		c.sent(key, floor(c.p.now()), o)
		c.checkTouch(c.i, o, key, planned.Meta, driver.Life{CreatedAt: planned.CreatedAt, ExpiresAt: to})
	}
	c.mu.Unlock()
	m.pause("before slide", key)
	c.mu.Lock()
	ok := m.memory.Slide(ctx, key, at, was, to)
	if ok {
		s := *c.last(key)
		if !s.present || s.Meta != planned.Meta || s.ExpiresAt != was {
			c.violated(4, key, "%v slid another record than %+v: %+v", o, planned.Meta, s.Meta)
		}
		s.ExpiresAt, s.by, s.lowered = to, o.String(), time.Time{}
		c.i.landed(key, s)
	}
	c.note(key, "%d slide to %d: %v", c.p.id, to, ok)
	c.mu.Unlock()
	m.pause("after slide", key)
	return ok
}
