package model

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// access makes a call that reads or touches a key.
func (c *client) access(o *op) {
	key := o.key
	switch n := c.dice.n(24); {
	case n < 9:
		ctx, s := c.begin(o, "get")
		v, err := s.Get(ctx, key)
		if c.finish(o, err) {
			c.answered(o, key, v)
			c.owe(o, key, &v)
		}
	case n < 12:
		ctx, s := c.begin(o, "entry")
		e, err := s.Entry(ctx, key)
		if c.finish(o, err) {
			c.entered(o, key, e)
			c.owe(o, key, &e.Value)
			c.see(o, key, e)
		}
	case n < 15:
		ctx, s := c.begin(o, "peek")
		e, err := s.Peek(ctx, key)
		if c.finish(o, err) {
			c.entered(o, key, e)
			c.see(o, key, e)
		}
	case n < 18:
		ctx, s := c.begin(o, "touch")
		until, err := s.Touch(ctx, key)
		if c.finish(o, err) {
			c.until(o, floor(until))
			c.owe(o, key, nil)
		}
	case n < 21:
		ctx, s := c.begin(o, "keep")
		err := s.Keep(ctx, key)
		if c.finish(o, err) && !o.unread() {
			c.kept(o)
			c.owe(o, key, nil)
		}
	default:
		e, ok := c.seen[key]
		if !ok {
			return
		}
		ctx, s := c.begin(o, "touch entry")
		got, err := s.TouchEntry(ctx, key, e)
		if c.finish(o, err) {
			if got.Value != e.Value {
				c.violated(8, key, "%v returns another value", o)
			}
			c.owe(o, key, &e.Value)
			c.see(o, key, got)
		}
	}
	c.mu.Unlock()
}

// callRow makes a call of the wrapped repository.
func (c *client) callRow(o *op) {
	switch n := c.dice.n(10); {
	case n < 6:
		ctx, _ := c.begin(o, "find")
		v, err := o.i.r.Get(ctx, o.key)
		if c.finish(o, err) && !o.unread() { // without its life a row stays as it is
			c.answered(o, o.key, v)
			c.owe(o, o.key, &v)
		}
	case n < 8:
		ctx, _ := c.begin(o, "save")
		o.value = c.newValue(o.key, 0)
		o.i.saves[o.value.id] = o
		err := o.i.r.Upsert(ctx, o.key, o.value)
		c.finish(o, err)
		if e, ok := errors.AsType[*slidingttl.Error](err); ok && e.Op == "touch" || err != nil && ctx.Err() != nil {
			o.touchFailed = true // or that of an earlier access, which is one with it; or its touch goes on without its caller
		}
	default:
		ctx, s := c.begin(o, "delete")
		if c.finish(o, s.Delete(ctx, o.key)) {
			c.deleted(o, o.key)
		}
	}
	c.mu.Unlock()
}

// callMulti makes a call for all keys.
func (c *client) callMulti(o *op) {
	o.keys = append([]string{o.key}, c.keys...) // one of them twice
	switch n := c.dice.n(6); {
	case n < 3:
		ctx, s := c.begin(o, "get multi")
		found, err := s.GetMulti(ctx, o.keys)
		ok := c.finish(o, err)
		for _, key := range c.keys {
			v, there := found[key]
			if there {
				c.answered(o, key, v)
				c.owe(o, key, &v)
			} else if ok || o.answered(err, key) {
				c.leftOut(o, key)
			}
		}
	case n < 4:
		ctx, s := c.begin(o, "peek multi")
		found, err := s.PeekMulti(ctx, o.keys)
		ok := c.finish(o, err)
		for _, key := range c.keys {
			e, there := found[key]
			if there {
				c.entered(o, key, e)
			} else if ok || o.answered(err, key) {
				c.leftOut(o, key)
			}
		}
	case n < 5:
		ctx, s := c.begin(o, "upsert multi")
		var items []slidingttl.Item[value]
		o.keys = nil
		for _, key := range c.keys {
			if key[0] != 'w' {
				o.keys = append(o.keys, key)
				items = append(items, slidingttl.Item[value]{Key: key, Value: c.newValue(key, 0)})
			}
		}
		c.finish(o, s.UpsertMulti(ctx, items))
	default:
		ctx, s := c.begin(o, "delete multi")
		var err error
		for _, key := range o.keys {
			err = errors.Join(err, s.Delete(ctx, key))
		}
		if c.finish(o, err) {
			for _, key := range c.keys {
				c.deleted(o, key)
			}
		}
	}
	c.mu.Unlock()
}

// write makes a call that writes a value, or deletes.
func (c *client) write(o *op) {
	key := o.key
	switch n := c.dice.n(18); {
	case n < 4:
		ctx, s := c.begin(o, "insert")
		o.value = c.newValue(key, 0)
		e, err := s.InsertEntry(ctx, key, o.value)
		c.wrote(o, e, err)
	case n < 8:
		ctx, s := c.begin(o, "upsert")
		o.value = c.newValue(key, 0)
		e, err := s.UpsertEntry(ctx, key, o.value)
		c.wrote(o, e, err)
	case n < 12:
		ctx, s := c.begin(o, "update")
		change := func(v value) (value, error) {
			o.value = c.newValue(key, v.id)
			return o.value, nil
		}
		if e, ok := c.seen[key]; ok && c.dice.oneIn(2) {
			o.foreign = e.CreatedAt == 0
			e, err := s.UpdateEntry(ctx, key, e, change)
			c.wrote(o, e, err)
			break
		}
		_, err := s.Update(ctx, key, change)
		c.finish(o, err)
	case n < 14:
		ctx, s := c.begin(o, "get or insert")
		v, inserted, err := s.GetOrInsert(ctx, key, func(context.Context) (value, error) { return c.newValue(key, 0), nil })
		if c.finish(o, err) && !inserted {
			c.answered(o, key, v)
			c.owe(o, key, &v)
		}
	case n < 16:
		ctx, s := c.begin(o, "delete")
		if c.finish(o, s.Delete(ctx, key)) {
			c.deleted(o, key)
		}
	default:
		e, ok := c.seen[key]
		if !ok {
			return
		}
		ctx, s := c.begin(o, "delete entry")
		o.value, o.foreign = e.Value, e.CreatedAt == 0
		if c.finish(o, s.DeleteEntry(ctx, key, e)) {
			c.deleted(o, key)
		}
	}
	c.mu.Unlock()
}
