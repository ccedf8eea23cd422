package drivertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// twisted is a reference with some of its calls changed.
type twisted struct {
	fakestore.Driver[Value]
	*reference
	hooks     map[string]func(*call) // answer the calls of an operation
	step      func() time.Duration
	now       func() time.Time
	clockless bool // it hides its clock
	check     func(context.Context) error
	load      func(key string) (*Value, driver.Meta, error)                     // not nil: it is a driver.Local
	slide     func(is *record, loaded driver.Meta, was, to driver.Instant) bool // not nil: it is a driver.Slider
	next      func() driver.Instant
	segment   func(context.Context, int) ([]driver.Cursor, error)
	scan      func(context.Context, driver.Cursor, int) (driver.Page, error)
	sweep     func(context.Context) error
	raw       func(context.Context, string) (driver.Raw, error)
	mend      func(context.Context, string, bool) (string, error)
}

// twist returns a reference nothing of which is changed yet.
func twist(r *reference) *twisted {
	d := &twisted{
		reference: r,
		hooks:     make(map[string]func(*call)),
		step:      r.Resolution,
		now:       r.Now,
		check:     func(ctx context.Context) error { return r.Check(ctx, day) },
		segment:   r.Segments,
		scan:      r.Scan,
		sweep:     r.sweep,
		raw:       r.Raw,
		mend:      r.Mend,
	}
	d.Driver.Has, d.Driver.Handle = slices.Clone(r.Has), func(c *call) {
		if f := d.hooks[c.Op]; f != nil {
			f(c)
		} else {
			r.do(c)
		}
	}
	return d
}

// on has f answer the calls of op. By do and as it has the reference answer them.
func (d *twisted) on(op string, f func(c *call)) { d.hooks[op] = f }

// as answers c as a call of op.
func (d *twisted) as(op string, c *call) {
	c.Op = op
	d.do(c)
}

// before changes each call of op on its way to the reference.
func (d *twisted) before(op string, change func(c *call)) {
	d.on(op, func(c *call) { change(c); d.do(c) })
}

// after changes the answer of each call of op.
func (d *twisted) after(op string, change func(c *call)) {
	d.on(op, func(c *call) { d.do(c); change(c) })
}

// locked answers each call of op by f, one at a time for all op of one mutex.
func (d *twisted) locked(mu sync.Locker, op string, f func(c *call)) {
	d.on(op, func(c *call) {
		mu.Lock()
		defer mu.Unlock()
		f(c)
	})
}

// driver returns d with the capabilities that it has by its fields and hooks.
func (d *twisted) driver() driver.Driver[Value] {
	has := func(capability any) { d.Driver.Has = append(d.Driver.Has, capability) }
	if d.clockless {
		d.Driver.Has = without(d.Driver.Has, (*driver.Clock)(nil))
	}
	for op, capability := range map[string]any{
		fakestore.Latest: (*driver.Latest[Value])(nil), fakestore.Remove: (*driver.Remover)(nil), fakestore.Overwrite: (*driver.Overwriter[Value])(nil),
	} {
		if d.hooks[op] != nil {
			has(capability)
		}
	}
	if d.load == nil {
		return d
	}
	if has((*driver.Local[Value])(nil)); d.slide != nil {
		has((*driver.Slider[Value])(nil))
	}
	return &local{twisted: d, loaded: make(map[*atomic.Int64]driver.Meta)}
}

func without(all []any, capability any) []any {
	return slices.DeleteFunc(slices.Clone(all), func(c any) bool { return c == capability })
}

// local is a twisted driver with the capability of a driver.Local, and of a driver.Slider. What its
// Slide does with the record that is stored, nil if there is none, is up to slide.
type local struct {
	*twisted
	mu     sync.Mutex // guards loaded
	loaded map[*atomic.Int64]driver.Meta
}

func (d *local) Load(key string) (*Value, driver.Meta, *atomic.Int64, error) {
	v, m, err := d.load(key)
	at := new(atomic.Int64)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loaded[at] = m
	return v, m, at, err
}

func (d *local) Next() driver.Instant {
	if d.next != nil {
		return d.next()
	}
	return driver.Ceil(d.Now())
}

func (d *local) Slide(_ context.Context, key string, at *atomic.Int64, was, to driver.Instant) bool {
	d.mu.Lock()
	loaded := d.loaded[at]
	d.mu.Unlock()
	d.reference.mu.Lock()
	defer d.reference.mu.Unlock()
	is, ok := d.reference.records[key]
	if !ok {
		return d.slide(nil, loaded, was, to)
	}
	slid := d.slide(&is, loaded, was, to)
	d.reference.records[key] = is
	return slid
}

// slideRight is a correct Slide.
func slideRight(is *record, loaded driver.Meta, was, to driver.Instant) bool {
	if is == nil || is.meta.Version != loaded.Version || is.meta.CreatedAt != loaded.CreatedAt {
		return false
	}
	return slideAny(is, loaded, was, to)
}

// slideAny is slideRight of any record.
func slideAny(is *record, _ driver.Meta, was, to driver.Instant) bool {
	if is.meta.ExpiresAt != was || was <= 0 || to <= was {
		return false
	}
	is.meta.ExpiresAt, is.goes = to, to
	return true
}

// loadCopy is a correct Load.
func (d *twisted) loadCopy(key string) (*Value, driver.Meta, error) {
	e, err := d.reference.Get(context.Background(), key)
	if err != nil {
		return nil, driver.Meta{}, err
	}
	return &e.Value, e.Meta, nil
}

func (d *twisted) Resolution() time.Duration { return d.step() }

func (d *twisted) Now() time.Time { return d.now() }

func (d *twisted) Bounds() (earliest, latest driver.Instant) {
	return driver.Floor(d.now()), driver.Ceil(d.now())
}

func (d *twisted) Check(ctx context.Context, _ time.Duration) error { return d.check(ctx) }

func (d *twisted) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	return d.segment(ctx, n)
}

func (d *twisted) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	return d.scan(ctx, from, limit)
}

func (d *twisted) Raw(ctx context.Context, key string) (driver.Raw, error) { return d.raw(ctx, key) }

func (d *twisted) Mend(ctx context.Context, key string, apply bool) (string, error) {
	return d.mend(ctx, key, apply)
}

// pages changes every page that Scan returns.
func (d *twisted) pages(change func(*driver.Page)) {
	d.scan = func(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
		p, err := d.reference.Scan(ctx, from, limit)
		if err == nil {
			change(&p)
		}
		return p, err
	}
}

// scanned changes every record that Scan returns.
func (d *twisted) scanned(change func(*driver.Scanned)) {
	d.pages(func(p *driver.Page) {
		for i := range p.Records {
			change(&p.Records[i])
		}
	})
}

// raws changes every record that Raw returns.
func (d *twisted) raws(change func(*driver.Raw)) {
	d.raw = func(ctx context.Context, key string) (driver.Raw, error) {
		raw, err := d.reference.Raw(ctx, key)
		if err == nil {
			change(&raw)
		}
		return raw, err
	}
}

// mends changes every record that Mend has written.
func (d *twisted) mends(change func(*record)) {
	d.mend = func(ctx context.Context, key string, apply bool) (string, error) {
		fault, err := d.reference.Mend(ctx, key, apply)
		if fault != "" && apply {
			d.change(key, change)
		}
		return fault, err
	}
}

// mended changes what Mend returns.
func (d *twisted) mended(change func(key, fault string, err error) (string, error)) {
	d.mend = func(ctx context.Context, key string, apply bool) (string, error) {
		fault, err := d.reference.Mend(ctx, key, apply)
		return change(key, fault, err)
	}
}

// single are the calls of a driver without capabilities.
var single = []string{"get", "insert", "replace", "touch", "delete"}

// all answers the calls of several operations.
func (d *twisted) all(f func(c *call), ops ...string) {
	for _, op := range ops {
		d.on(op, f)
	}
}

// keys changes every key on its way to the reference.
func (d *twisted) keys(change func(string) string) {
	d.all(func(c *call) { c.Key = change(c.Key); d.do(c) }, single...)
}

// errs changes every error on its way back.
func (d *twisted) errs(change func(key string, err error) error) {
	d.all(func(c *call) {
		if d.do(c); c.Err != nil {
			c.Err = change(c.Key, c.Err)
		}
	}, single...)
}

// contexts changes every context on its way to the reference.
func (d *twisted) contexts(change func(context.Context) context.Context) {
	d.all(func(c *call) { c.Ctx = change(c.Ctx); d.do(c) }, single...)
}

// lives changes every life that is written.
func (d *twisted) lives(change func(*driver.Life, driver.Instant)) {
	d.all(func(c *call) { change(&c.Life, c.Now); d.do(c) }, "insert", "replace", "touch")
}

// entries changes every record that Get returns.
func (d *twisted) entries(change func(*driver.Entry[Value])) {
	d.after("get", func(c *call) {
		if c.Err == nil {
			change(&c.Entry)
		}
	})
}

// upserts changes every life that an upsert has planned. It is called with the store locked.
func (d *twisted) upserts(change func(key string, known, found *driver.Meta, life *driver.Life)) {
	d.before("upsert", func(c *call) {
		plan := c.Plan
		c.Plan = func(found *driver.Meta) (driver.Life, error) {
			life, err := plan(found)
			if err == nil {
				change(c.Key, c.Known, found, &life)
			}
			return life, err
		}
	})
}

// plansOver changes the record that the plan of an upsert is shown.
func (d *twisted) plansOver(change func(c *call, found *driver.Meta) *driver.Meta) {
	d.before("upsert", func(c *call) {
		plan := c.Plan
		c.Plan = func(found *driver.Meta) (driver.Life, error) { return plan(change(c, found)) }
	})
}

// takesFor changes the writes of op by what is stored under their key.
func (d *twisted) takesFor(op string, change func(c *call, is driver.Meta)) {
	d.before(op, func(c *call) {
		if is, ok := d.stored(c.Key); ok {
			change(c, is)
		}
	})
}

// pauses has a write of op wait, if pause says so, and land then on whatever is there.
func (d *twisted) pauses(op string, pause func(c *call, is driver.Meta) bool) {
	d.before(op, func(c *call) {
		if is, ok := d.stored(c.Key); ok && is.Alive(c.Now) && pause(c, is) {
			slowly()
			if is, ok := d.stored(c.Key); ok {
				c.Was = is
			}
		}
	})
}

// readsFirst has write answer a read and touch, a moment after a plain read.
func (d *twisted) readsFirst(write func(c *call, read driver.Entry[Value])) {
	d.on("read touch", func(c *call) {
		read, err := d.reference.Get(c.Ctx, c.Key)
		if c.Err = err; err == nil {
			slowly()
			write(c, read)
		}
	})
}

// inTwoSteps answers an upsert: it reads, and then writes without a condition.
func (d *twisted) inTwoSteps(c *call) {
	if c.Err = c.Ctx.Err(); c.Err != nil {
		return
	}
	var found *driver.Meta
	if m, ok := d.stored(c.Key); ok && m.Alive(c.Now) {
		found = &m
	}
	if c.Life, c.Err = c.Plan(found); c.Err != nil {
		return
	}
	slowly()
	if c.Err = d.begin(c.Ctx, c.Key); c.Err != nil {
		return
	}
	defer d.mu.Unlock()
	c.Entry.Meta = driver.Meta{Life: c.Life, Version: d.reference.next(d.records[c.Key].meta.Version)}
	d.put(c.Key, c.Value, c.Entry.Meta)
}

// resurrects has a touch insert an empty record where it finds none, if cond holds.
func (d *twisted) resurrects(cond func(c *call) bool) {
	d.after("touch", func(c *call) {
		if _, there := d.stored(c.Key); errors.Is(c.Err, driver.ErrNotFound) && !there && cond(c) {
			d.as("insert", c)
		}
	})
}

// takesForeign has writes of op land on any record without created_at.
func takesForeign(d *twisted, op string) {
	d.takesFor(op, func(c *call, is driver.Meta) {
		if is.CreatedAt == 0 {
			c.Was = is
		}
	})
}

// swapped returns a function that returns to in place of an error that is of.
func swapped(of, to error) func(key string, err error) error {
	return func(_ string, err error) error {
		if errors.Is(err, of) {
			return to
		}
		return err
	}
}

// swaps answers calls of op with to in place of an error that is of.
func (d *twisted) swaps(op string, of, to error) {
	d.after(op, func(c *call) { c.Err = swapped(of, to)(c.Key, c.Err) })
}

// refuses answers writes of op with a conflict if cond holds for what is stored.
func (d *twisted) refuses(op string, cond func(c *call, is driver.Meta) bool) {
	d.on(op, func(c *call) {
		if is, ok := d.stored(c.Key); ok && cond(c, is) {
			c.Err = &driver.ConflictError{Found: is}
		} else {
			d.do(c)
		}
	})
}

// claims answers c as if it had written.
func claims(c *call) { c.Entry.Meta, c.Err = c.Was, nil }

// writes calls note after each call that has given a record a life.
func (d *twisted) writes(note func(by string, c *call)) {
	d.all(func(c *call) {
		d.do(c)
		switch by := c.Op; {
		case c.Err != nil || by == "read touch" && !c.Touched:
		case by == "touch" && c.Was.CreatedAt == 0:
			note("adopt", c)
		default:
			note(by, c)
		}
	}, "insert", "replace", "touch", "upsert", "read touch")
}

// byNames reports that the writes of those names reach the store's own expiry.
func byNames(names ...string) func(by, key string) bool {
	return func(by, _ string) bool { return slices.Contains(names, by) }
}

// ownExpiry gives the store an expiry of its own beside the one that the driver reports. A
// write moves it only if reaches returns true.
func ownExpiry(d *twisted, reaches func(by, key string) bool) {
	var mu sync.Mutex // guards own
	own := make(map[string]driver.Instant)
	d.writes(func(by string, c *call) {
		mu.Lock()
		defer mu.Unlock()
		if reaches(by, c.Key) {
			own[c.Key] = c.Entry.ExpiresAt
		}
	})
	read := func(c *call) {
		mu.Lock()
		defer mu.Unlock()
		at, ok := own[c.Key]
		switch {
		case c.Err == nil && ok && at != 0 && at <= driver.Floor(time.Now()):
			c.Err = driver.ErrNotFound
		case c.Err == nil && !ok:
			own[c.Key] = c.Entry.ExpiresAt // planted
		}
	}
	d.after("get", read)
	touch := d.hooks["read touch"]
	d.on("read touch", func(c *call) { touch(c); read(c) })
}

// stored returns what the reference holds under key.
func (d *twisted) stored(key string) (driver.Meta, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rec, ok := d.records[key]
	return rec.meta, ok
}

// slowly is the time between a read and a write in a driver that takes two steps.
func slowly() { time.Sleep(time.Millisecond) }

// lock is a mutex for bubbles of synctest: others may wait for it while its holder sleeps.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) Lock() { l <- struct{}{} }

func (l lock) Unlock() { <-l }
