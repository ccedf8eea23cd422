package fakestore

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The calls of a driver, as Call.Op names them.
const (
	Get       = "get"
	GetMulti  = "get multi"
	Latest    = "latest"
	Insert    = "insert"
	Replace   = "replace"
	Touch     = "touch"
	Delete    = "delete"
	Remove    = "remove"
	Upsert    = "upsert"
	Overwrite = "overwrite"
	ReadTouch = "read touch"
)

// Call is a call of a driver and its answer.
type Call[T any] struct {
	Ctx    context.Context
	Op     string
	Key    string
	Keys   []string       // GetMulti
	Value  T              // what a write stores
	Was    driver.Meta    // Replace, Touch, Remove: the record that it is planned for
	Known  *driver.Meta   // Upsert, ReadTouch
	Life   driver.Life    // Insert, Replace, Touch; Overwrite: the new life
	Plan   driver.Plan    // Upsert
	Access driver.Access  // Overwrite, ReadTouch
	Now    driver.Instant // of writes

	Entry   driver.Entry[T]            // what a read has found; the Meta of what a write has stored
	Entries map[string]driver.Entry[T] // GetMulti
	Touched bool                       // ReadTouch
	Err     error                      // not nil: the other results do not count, but Entries
}

// Reads reports whether the call never changes what is stored.
func (c *Call[T]) Reads() bool { return c.Op == Get || c.Op == GetMulti || c.Op == Latest }

// Rules are what stores do differently.
type Rules struct {
	Bumps bool // a touch changes the version
	Pairs bool // ReadTouch touches only the record that its caller remembers
}

// Apply has c, which is no GetMulti, take effect on the record found under its key, nil for none. It
// sets the answer of c. If c writes, is is what is stored from then on, nil for nothing. What c
// stores gets the version next.
func (c *Call[T]) Apply(found *driver.Entry[T], next driver.Version, r Rules) (is *driver.Entry[T], writes bool) {
	c.Entry, c.Touched, c.Err = driver.Entry[T]{}, false, nil
	alive := found != nil && found.Alive(c.Now)
	switch c.Op {
	case Get, Latest:
		c.read(found)
	case ReadTouch:
		c.read(found)
		if !alive || r.Pairs && (c.Known == nil || *c.Known != found.Meta) {
			return nil, false
		}
		if c.Life, c.Touched = c.Access.Touch(found.Life); c.Touched {
			return c.touch(found, next, r), true
		}
	case Insert:
		if alive {
			c.Err = &driver.ConflictError{Found: found.Meta}
			return nil, false
		}
		return c.write(found, alive, next), true
	case Upsert, Overwrite:
		plan := c.Plan
		if c.Op == Overwrite {
			plan = c.Access.Overwrite(c.Life, c.Now)
		}
		var over *driver.Meta
		if alive {
			m := found.Meta
			over = &m
		}
		if c.Life, c.Err = plan(over); c.Err == nil {
			return c.write(found, alive, next), true
		}
	case Replace, Touch, Remove:
		switch {
		case !alive:
			c.Err = driver.ErrNotFound
		case found.Meta != c.Was:
			c.Err = &driver.ConflictError{Found: found.Meta}
		case c.Op == Replace:
			return c.write(found, alive, next), true
		case c.Op == Touch:
			return c.touch(found, next, r), true
		default:
			return nil, true
		}
	case Delete:
		return nil, true
	}
	return nil, false
}

func (c *Call[T]) read(found *driver.Entry[T]) {
	if found == nil {
		c.Err = driver.ErrNotFound
		return
	}
	c.Entry = *found
}

func (c *Call[T]) write(found *driver.Entry[T], alive bool, next driver.Version) *driver.Entry[T] {
	if found != nil && !alive {
		driver.Replaced(c.Ctx, found.Meta)
	}
	c.Entry = driver.Entry[T]{Value: c.Value, Meta: driver.Meta{Life: c.Life, Version: next}}
	is := c.Entry
	return &is
}

func (c *Call[T]) touch(found *driver.Entry[T], next driver.Version, r Rules) *driver.Entry[T] {
	is := *found
	is.Life = c.Life
	if r.Bumps {
		is.Version = next
	}
	c.Entry = is
	return &is
}

// Each answers a GetMulti by a Get of each key, which handle answers.
func (c *Call[T]) Each(handle func(*Call[T])) {
	c.Entries = make(map[string]driver.Entry[T])
	var failed driver.KeyErrors
	for i, key := range driver.Distinct(c.Keys) {
		get := &Call[T]{Ctx: c.Ctx, Op: Get, Key: key}
		handle(get)
		switch {
		case get.Err == nil:
			c.Entries[key] = get.Entry
		case errors.Is(get.Err, driver.ErrInvalid):
			failed = append(failed, &driver.KeyError{Index: i, Err: get.Err})
		case !errors.Is(get.Err, driver.ErrNotFound):
			c.Err = get.Err
			return
		}
	}
	c.Err = failed.Err()
}

// Forward answers c by the same call of d.
func Forward[T any](d driver.Driver[T], c *Call[T]) {
	switch c.Op {
	case Get:
		c.Entry, c.Err = d.Get(c.Ctx, c.Key)
	case GetMulti:
		c.Entries, c.Err = driver.GetMulti(c.Ctx, d, c.Keys)
	case Latest:
		c.Entry, c.Err = driver.GetLatest(c.Ctx, d, c.Key)
	case Insert:
		c.Entry.Version, c.Err = d.Insert(c.Ctx, c.Key, c.Value, c.Life, c.Now)
	case Replace:
		c.Entry.Version, c.Err = d.Replace(c.Ctx, c.Key, c.Value, c.Was, c.Life, c.Now)
	case Touch:
		c.Entry.Version, c.Err = d.Touch(c.Ctx, c.Key, c.Was, c.Life, c.Now)
	case Delete:
		c.Err = d.Delete(c.Ctx, c.Key)
	case Remove:
		c.Err = driver.Remove(c.Ctx, d, c.Key, c.Was, c.Now)
	case Upsert:
		c.Entry.Meta, c.Err = driver.Upsert(c.Ctx, d, c.Key, c.Value, c.Known, c.Plan, c.Now)
	case ReadTouch:
		c.Entry, c.Touched, c.Err = d.(driver.ReadToucher[T]).ReadTouch(c.Ctx, c.Key, c.Known, c.Access, c.Now)
	default:
		c.Err = errors.ErrUnsupported
	}
}
