package model

import (
	"context"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// client uses a process's store, one call after the other.
type client struct {
	*world
	p    *process
	dice dice
	seen map[string]slidingttl.Entry[value] // what a call returned last
}

// run makes n calls, restarts or pauses.
func (c *client) run(n int) {
	for range n {
		c.rest()
		key := c.keys[c.dice.n(len(c.keys))]
		if c.dice.oneIn(2) {
			c.await(key)
		}
		switch {
		case c.dice.oneIn(60):
			c.restart()
		case c.changing && c.dice.oneIn(60):
			c.p.change(&c.dice)
		case c.plants && c.dice.oneIn(30):
			c.intrude(key)
		default:
			c.call(key)
		}
	}
}

// rest sleeps, briefly or long.
func (c *client) rest() {
	time.Sleep(c.dice.upTo(pick(&c.dice, 10*ms, c.idle/8, c.idle/2, c.idle*6/5)))
}

// await sleeps until a moment before or after key's record dies, or falls due.
func (c *client) await(key string) {
	c.mu.Lock()
	s, r := c.last(key), c.p.tables[len(c.p.tables)-1].of[0]
	c.mu.Unlock()
	if !s.present {
		return
	}
	at := s.ExpiresAt
	if s.CreatedAt != 0 && c.dice.oneIn(2) {
		at = r.limit(s.CreatedAt)
	}
	when := at.Time().Add(-c.p.skew).Add(pick(&c.dice, 0, c.step, -r.Slack, c.maxSkew))
	when = when.Add(pick(&c.dice, -c.dice.upTo(2*c.trip), -ms, -1, 0, 1, ms, c.dice.upTo(c.trip)))
	if wait := time.Until(when); wait > 0 && wait < 2*c.idle {
		time.Sleep(wait)
	}
}

// restart closes the process's store while its other clients make calls.
func (c *client) restart() {
	c.mu.Lock()
	i := c.p.i
	busy := !i.closing.IsZero()
	i.closing = time.Now()
	c.mu.Unlock()
	if busy {
		return
	}
	ctx, cancel := context.Background(), func() {}
	if c.dice.oneIn(2) {
		ctx, cancel = context.WithTimeout(ctx, c.dice.upTo(2*c.trip))
	}
	defer cancel()
	first := c.dice.oneIn(2)
	if first {
		c.p.reopen(&c.dice)
	}
	i.close(ctx)
	c.mu.Lock()
	c.settle(i)
	c.mu.Unlock()
	if !first {
		c.p.reopen(&c.dice)
	}
}

// intrude writes as another program would: mostly a record without created_at, sometimes
// one with a life.
func (c *client) intrude(key string) {
	if c.memory != nil {
		return
	}
	now := floor(time.Now())
	var life driver.Life
	switch c.dice.n(4) {
	case 0:
		life.ExpiresAt = up(now.Add(c.dice.upTo(2*c.idle)), c.step)
	case 1:
		life = driver.Life{CreatedAt: now.Add(-c.dice.upTo(c.idle)), ExpiresAt: up(now.Add(c.dice.upTo(6*c.idle)), c.step)}
	}
	v := c.newValue(key, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	for life.CreatedAt != 0 && slices.ContainsFunc(c.truth[key], func(s state) bool { return s.CreatedAt == life.CreatedAt }) {
		life.CreatedAt-- // it is another record
	}
	c.plant(key, v, life, "another program")
}

// see keeps what a call returned, for later calls of the client.
func (c *client) see(o *op, key string, e slidingttl.Entry[value]) {
	c.seen[key] = e
	o.i.read(key, e.Meta)
}

// newValue returns a value that is new, of a kind that may be key's.
func (c *client) newValue(key string, from int) value {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	v := value{id: c.lastID, from: from, kind: c.dice.n(kinds)}
	if c.policyFor {
		v.kind = kindOf(key)
	}
	return v
}

// call makes a call for key and checks what it returns.
func (c *client) call(key string) {
	c.mu.Lock()
	c.calls++
	o := &op{id: c.calls, p: c.p, i: c.p.i, key: key, start: time.Now()}
	c.mu.Unlock()
	ctx, cancel := context.Background(), func() {}
	if c.dice.oneIn(12) {
		ctx, cancel = context.WithTimeout(ctx, c.dice.upTo(3*c.trip))
	}
	defer cancel()
	o.ctx = context.WithValue(ctx, opKey{}, o)
	switch {
	case key[0] == 'w':
		c.callRow(o)
	case c.dice.oneIn(6):
		c.callMulti(o)
	case c.dice.oneIn(3):
		c.write(o)
	default:
		c.access(o)
	}
	time.Sleep(time.Nanosecond) // whatever ran at the same instant is done
	c.mu.Lock()
	c.settle(o.i)
	c.mu.Unlock()
}

// begin names the call that follows.
func (c *client) begin(o *op, name string) (context.Context, *slidingttl.Store[value]) {
	o.name = name
	c.mu.Lock()
	c.note(o.key, "%v begins", o)
	c.mu.Unlock()
	return o.ctx, o.i.s
}

// finish ends o and checks its error. The world then stays locked until the answer is
// checked too.
func (c *client) finish(o *op, err error) (ok bool) {
	end := time.Now()
	if err != nil {
		time.Sleep(time.Nanosecond) // the hook that was told of it has run
	}
	c.mu.Lock()
	o.end = end
	c.note(o.key, "%v from %s: %v", o, stamp(o.start), err)
	return !c.erred(o, o.key, err)
}
