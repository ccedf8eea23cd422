package model

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

var (
	errDown = errors.New("store is down")
	errGone = fmt.Errorf("%w: %w", errDown, driver.ErrAmbiguous)
)

// call is a call of a driver.
type call = fakestore.Call[value]

// conn is a process's connection to the simulated backend: calls take time both ways, may
// fail, and may land whatever their caller is told.
type conn struct {
	fakestore.Driver[value]
	*world
	p *process
	i *incarnation
}

var (
	isBatchGetter = (*driver.BatchGetter[value])(nil)
	isReadToucher = (*driver.ReadToucher[value])(nil)
	isUpserter    = (*driver.Upserter[value])(nil)
	isRemover     = (*driver.Remover)(nil)
	isClock       = (*driver.Clock)(nil)
)

// capabilities of each kind of store.
var capabilities = map[store][]any{
	batch:   {isBatchGetter},
	upserts: {isBatchGetter, isUpserter, isRemover},
	clocked: {isClock},
	stale:   {isBatchGetter, (*driver.Latest[value])(nil)},
	decides: {(*driver.Overwriter[value])(nil), isReadToucher}, // its server decides
	pairs:   {isBatchGetter, isReadToucher},                    // a read is sent together with a touch of what is remembered
	local:   {isUpserter, isRemover, isClock, (*driver.Local[value])(nil), (*driver.Slider[value])(nil)},
}

// dial returns the driver that the store of an incarnation is given.
func (w *world) dial(p *process, i *incarnation) driver.Driver[value] {
	c := &conn{world: w, p: p, i: i}
	c.Step, c.Has, c.Handle = w.step, capabilities[w.store], c.answer
	if w.store == local {
		m := &inner{conn: c}
		c.Step, c.Handle = w.memory.Resolution(), m.answer
		return m
	}
	return c
}

// Now implements driver.Clock.
func (c *conn) Now() time.Time { return c.p.now() }

// Bounds implements driver.Clock.
func (c *conn) Bounds() (earliest, latest driver.Instant) {
	now := c.p.now()
	return driver.Floor(now) - 3, driver.Ceil(now) + driver.Instant(coarse/ms)
}

// coarse is how far the later of a clock's bounds may be ahead of the time.
const coarse = 5 * ms

// roundTrip runs f in the backend, where the call arrives after a while, and returns its error
// after another while.
func (c *conn) roundTrip(ctx context.Context, name, key string, write bool, f func() error) error {
	c.late.Add(1)
	defer c.late.Done()
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
	if err := driver.Sleep(ctx, there); err != nil {
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
	if serr := driver.Sleep(ctx, back); serr != nil {
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

// answer answers k.
func (c *conn) answer(k *call) {
	if k.Op == fakestore.GetMulti { // one trip, in which each key is read at its own moment
		k.Each(c.answer)
		return
	}
	o := c.op(k.Ctx)
	lowered, done := c.send(o, k)
	sent := *k // a write that was given up may still land, so its answer is not read
	k.Err = c.roundTrip(k.Ctx, k.Op, k.Key, !k.Reads(), func() error {
		c.land(o, &sent, lowered)
		return sent.Err
	})
	if done(k.Err); k.Err == nil {
		k.Entry, k.Touched = sent.Entry, sent.Touched
	}
}

// send checks a write that is sent, and returns when it lowers the expiry, if it does. done is called
// with its error.
func (c *conn) send(o *op, k *call) (lowered time.Time, done func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	touched := func() {}
	switch k.Op {
	case fakestore.Insert, fakestore.Overwrite:
		c.sent(k.Key, k.Now, o)
		c.checkFresh(c.p, o, k.Key, k.Value, k.Life)
	case fakestore.Replace:
		c.sent(k.Key, k.Now, o)
		lowered = c.checkOverwrite(c.i, o, k.Key, k.Value, k.Was, k.Life, floor(c.p.now()))
	case fakestore.Touch:
		c.sent(k.Key, k.Now, o)
		lowered = c.checkTouch(c.i, o, k.Key, k.Was, k.Life)
		if c.store != local {
			touched = c.i.touch(o, k.Key)
		}
	case fakestore.ReadTouch:
		touched = c.i.touch(o, k.Key)
	case fakestore.Delete:
		if o.name != "delete" && o.name != "delete multi" {
			c.violated(5, k.Key, "a %v deletes", o)
		}
	case fakestore.Remove:
		if o.name != "delete entry" {
			c.violated(5, k.Key, "a %v removes", o)
		}
	}
	tightened := c.i.tighten(k.Key, lowered)
	return lowered, func(err error) {
		tightened(err)
		touched()
		if k.Op == fakestore.Upsert && err != nil && c.store != local { // it may have been sent to lower the expiry, even if nothing called the plan
			c.mu.Lock()
			defer c.mu.Unlock()
			c.i.refused[k.Key] = time.Now()
		}
	}
}

// land has k take effect.
func (c *conn) land(o *op, k *call, lowered time.Time) {
	s := c.last(k.Key)
	if k.Op == fakestore.Get && c.stale > 0 {
		if d := c.luck(c.p.id, "stale", k.Key); d.oneIn(2) {
			s = c.at(k.Key, time.Now().Add(-d.upTo(c.stale)))
		}
	}
	var found *driver.Entry[value]
	if s.present {
		found = &driver.Entry[value]{Value: s.value, Meta: s.Meta}
	}
	var over *driver.Meta
	if s.present && s.Alive(k.Now) {
		over = &s.Meta
		if k.Op == fakestore.Upsert {
			c.i.read(k.Key, s.Meta)
		}
	}
	is, writes := k.Apply(found, c.version+1, fakestore.Rules{Bumps: c.bumps, Pairs: c.store == pairs})
	if writes {
		c.landed(o, k, over, is, lowered)
	}
	if k.Reads() || k.Op == fakestore.ReadTouch {
		c.note(k.Key, "  %d sees %v", c.p.id, c.last(k.Key))
		if k.Err == nil {
			c.i.read(k.Key, k.Entry.Meta)
			c.i.saw[k.Entry.Value.id] = c.i.saw[k.Entry.Value.id] || o.name != "save" && !o.looks()
		}
	}
}

// landed checks what k writes over a live record, or for nil as a new life, and logs what is stored
// from now on.
func (c *conn) landed(o *op, k *call, over *driver.Meta, is *driver.Entry[value], lowered time.Time) {
	switch k.Op {
	case fakestore.Replace:
		c.checkFrom(k.Key, k.Value)
	case fakestore.Upsert:
		if over != nil {
			if lowered = c.checkOverwrite(c.i, o, k.Key, k.Value, *over, is.Life, floor(c.p.now())); k.Ctx.Err() != nil {
				lowered = time.Time{} // nothing had called the plan when its caller left: that counts as no lowering
			}
		} else {
			c.checkFresh(c.p, o, k.Key, k.Value, is.Life)
		}
	case fakestore.Overwrite:
		if over != nil && over.CreatedAt.Add(time.Duration(k.Access.Most)*time.Millisecond) > k.Now {
			c.checkOverwrite(c.i, o, k.Key, k.Value, *over, is.Life, k.Now)
		}
	case fakestore.ReadTouch:
		c.sent(k.Key, k.Now, o)
		lowered = c.checkTouch(c.i, o, k.Key, *over, is.Life)
	}
	if is == nil {
		c.put(k.Key, state{by: o.String()})
		return
	}
	c.version = max(c.version, is.Version)
	c.i.landed(k.Key, state{present: true, value: is.Value, Meta: is.Meta, by: o.String(), lowered: lowered})
}
