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
	Bumps  bool  // a touch changes the version
	Pairs  bool  // ReadTouch touches only the record that its caller remembers
	Denied error // of each write over the record that would else take effect
}

// Apply has c, which is no GetMulti, take effect on the record found under its key, nil for none. It
// sets the answer of c. If c writes, is is what is stored from then on, nil for nothing. What c
// stores gets the version next.
func (c *Call[T]) Apply(found *driver.Entry[T], next driver.Version, r Rules) (is *driver.Entry[T], writes bool) {
	c.Entry, c.Touched = driver.Entry[T]{}, false
	is, writes, c.Err = c.decide(found, next, r)
	if c.Op == ReadTouch && (!writes || r.Denied != nil) || c.Op == Get || c.Op == Latest {
		if found == nil {
			c.Err = driver.ErrNotFound
		} else {
			c.Entry = *found
		}
		return nil, false
	}
	if writes && r.Denied != nil {
		c.Err = r.Denied
	}
	if c.Err != nil {
		return nil, false
	}
	if c.Touched = c.Op == ReadTouch; is != nil {
		c.Entry = *is
		if found != nil && !found.Alive(c.Now) {
			driver.Replaced(c.Ctx, found.Meta)
		}
	}
	return is, writes
}

// decide returns what c stores, and its error, or false if it writes nothing.
func (c *Call[T]) decide(found *driver.Entry[T], next driver.Version, r Rules) (is *driver.Entry[T], writes bool, err error) {
	alive := found != nil && found.Alive(c.Now)
	life := c.Life
	switch c.Op {
	case ReadTouch:
		if !alive || r.Pairs && (c.Known == nil || *c.Known != found.Meta) {
			return nil, false, nil
		}
		if life, writes = c.Access.Touch(found.Life); !writes {
			return nil, false, nil
		}
	case Insert:
		if alive {
			return nil, false, &driver.ConflictError{Found: found.Meta}
		}
	case Upsert, Overwrite:
		plan := c.Plan
		if c.Op == Overwrite {
			plan = c.Access.Overwrite(c.Life, c.Now)
		}
		var over *driver.Meta
		if alive {
			over = &driver.Meta{Life: found.Life, Version: found.Version}
		}
		if life, err = plan(over); err != nil {
			return nil, false, err
		}
	case Replace, Touch, Remove:
		switch {
		case !alive:
			return nil, false, driver.ErrNotFound
		case found.Meta != c.Was:
			return nil, false, &driver.ConflictError{Found: found.Meta}
		}
	}
	switch c.Op {
	case Get, Latest:
		return nil, false, nil
	case Delete, Remove:
		return nil, true, nil
	case Touch, ReadTouch:
		is = &driver.Entry[T]{Value: found.Value, Meta: driver.Meta{Life: life, Version: found.Version}}
		if r.Bumps {
			is.Version = next
		}
	default:
		is = &driver.Entry[T]{Value: c.Value, Meta: driver.Meta{Life: life, Version: next}}
	}
	return is, true, nil
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
