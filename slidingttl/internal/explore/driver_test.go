package explore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// features are what a driver may have. A plain one removes the dead at their expiry, and
// its touches keep the version.
var features = []string{
	"plain",
	"readtouch", // a ReadToucher whose server decides
	"overwrite", // an Overwriter as well
	"versions",  // a touch changes the version
	"stale",     // a Latest: a plain read may be stale
	"retains",   // keeps the dead
	"seconds",   // stores whole seconds
	"deaf",      // does not return at the end of a context
	"locks",     // no feature: the schedule orders the locks of the touches as well
}

// conn is a process's driver.
type conn struct {
	w *world
	p *process
}

var (
	_ driver.Remover[value]     = (*conn)(nil)
	_ driver.ReadToucher[value] = readToucher{}
	_ driver.Overwriter[value]  = overwriter{}
	_ driver.Latest[value]      = latest{}
)

// dial returns a driver with the features of the program's.
func (w *world) dial(p *process) driver.Driver[value] {
	c := &conn{w, p}
	switch has := func(f string) bool { return strings.Contains(w.driver, f) }; {
	case has("overwrite"):
		return overwriter{readToucher{c}}
	case has("readtouch"):
		return readToucher{c}
	case has("stale"):
		return latest{c}
	default:
		return c
	}
}

func (c *conn) Resolution() time.Duration { return c.w.resolution() }

func (c *conn) Get(ctx context.Context, k string) (driver.Entry[value], error) {
	switch k {
	case missing:
		return driver.Entry[value]{}, driver.ErrNotFound
	case aside, bad, many[0], many[1], many[2]:
		now := driver.Ceil(c.p.now())
		return driver.Entry[value]{Meta: driver.Meta{Life: driver.Life{CreatedAt: now, ExpiresAt: now.Add(minute)}, Version: 1}}, nil
	}
	return roundTrip(ctx, c, "get", func(r *run) (driver.Entry[value], error) { return c.read(r, c.w.truth.last()) })
}

// read is an effect: s is what it finds.
func (c *conn) read(r *run, s *state) (driver.Entry[value], error) {
	if r != nil && r.saved > 0 && r.readBack == nil {
		r.readBack = &driver.Meta{}
		*r.readBack = s.Meta
	}
	if !s.present {
		if r != nil {
			r.foundGone = c.w.step
		}
		return driver.Entry[value]{}, driver.ErrNotFound
	}
	if r != nil && r.saved == 0 && r.name == "save" {
		r.before = s.Life
	}
	return driver.Entry[value]{Value: s.value, Meta: s.Meta}, nil
}

func (c *conn) Insert(ctx context.Context, _ string, v value, life driver.Life, now driver.Instant) (driver.Version, error) {
	return roundTrip(ctx, c, "insert", func(r *run) (driver.Version, error) {
		if s := c.w.truth.last(); s.present && s.Alive(now) {
			return 0, &driver.ConflictError{Found: s.Meta}
		}
		c.w.judgeFresh(c.p, r, life)
		return c.w.store(v, life, r), nil
	})
}

// match is nil if the record is was, and alive at now.
func (c *conn) match(was driver.Meta, now driver.Instant) error {
	switch s := c.w.truth.last(); {
	case !s.present || !s.Alive(now):
		return driver.ErrNotFound
	case s.Meta != was:
		return &driver.ConflictError{Found: s.Meta}
	}
	return nil
}

func (c *conn) Replace(ctx context.Context, _ string, v value, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	return roundTrip(ctx, c, "replace", func(r *run) (driver.Version, error) {
		if err := c.match(was, now); err != nil {
			return 0, err
		}
		c.w.judgeReplace(c.p, r, v, life)
		return c.w.store(v, life, r), nil
	})
}

func (c *conn) Touch(ctx context.Context, k string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	switch k {
	case aside:
		return 1, c.w.refusal()
	case bad:
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		c.p.failed = append(c.p.failed, 1)
		c.w.sending(c.p, bad)
		return 0, errDown
	case many[0], many[1], many[2]:
		return roundTripOf(ctx, c, "touch", k, 1, func(*run) (driver.Version, error) { return 1, nil })
	}
	return roundTripOf(ctx, c, "touch", k, was.CreatedAt, func(r *run) (driver.Version, error) {
		if err := c.match(was, now); err != nil {
			return 0, err
		}
		c.w.judgeTouch(c.p, r, life)
		return c.touched(life), nil
	})
}

// touched gives the stored record this life.
func (c *conn) touched(life driver.Life) driver.Version {
	s := *c.w.truth.last()
	s.Life = life
	if strings.Contains(c.w.driver, "versions") {
		c.w.truth.version++
		s.Version = c.w.truth.version
	}
	c.w.put(s)
	return s.Version
}

func (c *conn) Delete(ctx context.Context, _ string) error {
	_, err := roundTrip(ctx, c, "delete", func(r *run) (struct{}, error) {
		c.w.put(state{by: r})
		if r != nil {
			r.deleted = c.w.step
		}
		return struct{}{}, nil
	})
	return err
}

func (c *conn) Remove(ctx context.Context, _ string, was driver.Meta, now driver.Instant) error {
	_, err := roundTrip(ctx, c, "remove", func(r *run) (struct{}, error) {
		if err := c.match(was, now); err != nil {
			return struct{}{}, err
		}
		if s := c.w.truth.last(); r != nil && r.meta != (driver.Meta{}) && s.value != r.value {
			c.w.violated("created", "%v removes value %d in place of %d", r, s.value.id, r.value.id)
		}
		c.w.put(state{by: r})
		if r != nil {
			r.deleted = c.w.step
		}
		return struct{}{}, nil
	})
	return err
}

// readToucher reads and touches at once.
type readToucher struct{ *conn }

func (c readToucher) ReadTouch(ctx context.Context, k string, _ *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[value], bool, error) {
	if k != key {
		e, err := c.Get(ctx, k)
		return e, false, err
	}
	touched := false
	e, err := roundTrip(ctx, c.conn, "readtouch", func(r *run) (driver.Entry[value], error) {
		s := c.w.truth.last()
		if s.present && s.Alive(now) {
			var life driver.Life
			if life, touched = a.Touch(s.Life); touched {
				c.w.judgeTouch(c.p, r, life)
				c.touched(life)
			}
		}
		return c.read(r, c.w.truth.last())
	})
	return e, touched && err == nil, err
}

// overwriter decides what an upsert writes as well.
type overwriter struct{ readToucher }

func (c overwriter) Overwrite(ctx context.Context, _ string, v value, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
	return roundTrip(ctx, c.conn, "overwrite", func(r *run) (driver.Meta, error) {
		s, plan := c.w.truth.last(), a.Overwrite(newLife, now)
		found := &s.Meta
		if !s.present || !s.Alive(now) {
			found = nil
		}
		life, err := plan(found)
		switch {
		case err != nil:
			return driver.Meta{}, err
		case found == nil:
			c.w.judgeFresh(c.p, r, life)
		default:
			c.w.judgeReplace(c.p, r, v, life)
		}
		return driver.Meta{Life: life, Version: c.w.store(v, life, r)}, nil
	})
}

// latest is a driver whose reads may be stale, and which has some that are not.
type latest struct{ *conn }

func (c latest) Latest(ctx context.Context, k string) (driver.Entry[value], error) {
	if k != key {
		return c.Get(ctx, k)
	}
	return roundTrip(ctx, c.conn, "latest", func(r *run) (driver.Entry[value], error) { return c.read(r, c.w.truth.last()) })
}

// repository is the wrapped repository: it keeps its values where the store does, and a value
// that it saves has no life.
type repository struct{ *conn }

func (r repository) Get(ctx context.Context, id string) (value, error) {
	e, err := r.conn.Get(ctx, id)
	return e.Value, err
}

func (r repository) Upsert(ctx context.Context, _ string, v value) error {
	_, err := roundTrip(ctx, r.conn, "save", func(by *run) (driver.Version, error) {
		if by != nil {
			by.saved = r.w.step
		}
		return r.w.store(v, driver.Life{}, by), nil
	})
	return err
}

var (
	errDown   = errors.New("store is down")
	errExited = errors.New("its goroutine has ended")
	errLost   = fmt.Errorf("%w: %w", errDown, driver.ErrAmbiguous)
)
