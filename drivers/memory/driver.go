package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Driver keeps records of type T in memory. It implements [driver.Driver],
// [driver.Upserter], [driver.Remover], [driver.Clock] and [driver.Slider]. All methods are
// safe for concurrent use. Calls wait only for a few short locks, so they ignore contexts.
// After Close every call that can fail returns ErrClosed.
type Driver[T any] struct {
	opts    Options[T]
	errFull error
	clock   *clock

	// records serialises the writes of a key: all changes, the driver's own removals
	// included, are made within compute.
	records *table[T]
	wheel   *wheel[T]
	closed  atomic.Bool
	stop    chan struct{} // closed by Close
	done    sync.WaitGroup

	sweeper sweeper[T]
	deaths  deaths[T]
	hooks   hook.Runner

	_        [64]byte // keeps what every write changes off the cache line that reads need
	versions atomic.Uint64
	count    atomic.Int64 // records held; zero without MaxEntries
	_        [48]byte
}

var (
	_ driver.Upserter[int] = (*Driver[int])(nil)
	_ driver.Clock         = (*Driver[int])(nil)
	_ driver.Slider[int]   = (*Driver[int])(nil)
	_ driver.Remover       = (*Driver[int])(nil)
)

// New returns an empty driver. Nil opts mean the zero Options; an invalid option is a
// *driver.InvalidError. New starts two goroutines, which Close ends.
func New[T any](opts *Options[T]) (*Driver[T], error) {
	d := &Driver[T]{stop: make(chan struct{})}
	if opts != nil {
		d.opts = *opts
	}
	if err := d.opts.validate(); err != nil {
		return nil, err
	}
	d.errFull = fmt.Errorf("memory: %w: all %d records are alive", driver.ErrFull, d.opts.MaxEntries)
	d.clock = newClock(d.opts.Now)
	d.records = newTable[T]()
	d.wheel = newWheel[T](d.gone())
	d.sweeper.wake = make(chan struct{}, 1)
	d.done.Add(2)
	go d.sweep()
	go func() {
		defer d.done.Done()
		d.clock.run(d.stop)
	}()
	return d, nil
}

// Get implements driver.Driver. It returns a dead record until that is removed.
func (d *Driver[T]) Get(_ context.Context, key string) (driver.Entry[T], error) {
	for {
		v, m, _, err := d.Load(key)
		if err != nil {
			return driver.Entry[T]{}, err
		}
		if m.Alive(d.clock.instant()) || d.end(key, m) {
			return driver.Entry[T]{Value: *v, Meta: m}, nil
		}
	}
}

// end makes sure that no write revives the dead record m, which was found under key. It reports
// false if the record has changed since.
func (d *Driver[T]) end(key string, m driver.Meta) (ok bool) {
	if r := d.records.load(key); r != nil && !r.ended() {
		d.records.compute(key, func(r *record[T]) (*record[T], change) {
			if r != nil && r.meta() == m {
				r.expires.Or(endedBit)
			}
			return nil, leave
		})
	}
	r := d.records.load(key)
	return r == nil || r.meta() == m
}

// Load implements driver.Local: Get without a copy of the value.
func (d *Driver[T]) Load(key string) (*T, driver.Meta, *atomic.Int64, error) {
	s, hash := d.records.find(key)
	g := s.grid.Load()
	// This is the first step of search, inlined; mostly it suffices. The fewer instructions
	// lie between two reads of memory, the more of them the processor overlaps.
	if g != nil {
		b := g.home(hash)
		if m := matches(b.tags.Load(), hash); m != 0 {
			if r := b.slots[slotOf(m)].Load(); r != nil && r.key() == key {
				if word := r.expires.Load(); word&endedBit == 0 {
					return &r.value, r.metaOf(word), &r.expires, nil
				}
			}
		}
	}
	r, _, _ := g.search(key, hash)
	if r == nil || r.ended() && r.meta().Alive(d.clock.instant()) { // the clock has stepped back since
		return nil, driver.Meta{}, nil, d.missing(key)
	}
	return &r.value, r.meta(), &r.expires, nil
}

// Slide implements driver.Slider. A write of a value stores another record, so the expiry alone says
// whether this one is as it was.
func (d *Driver[T]) Slide(_ context.Context, _ string, at *atomic.Int64, was, to driver.Instant) bool {
	return 0 < was && was < to && at.CompareAndSwap(wordOf(was), wordOf(to))
}

// missing returns the error for a key that was not found.
func (d *Driver[T]) missing(key string) error {
	if err := driver.CheckKey(key, 0); err != nil {
		return err
	}
	if d.closed.Load() {
		return ErrClosed
	}
	return driver.ErrNotFound
}

// Insert implements driver.Driver. If MaxEntries is reached and no record is dead, the
// error is driver.ErrFull.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	m, err := d.Upsert(ctx, key, v, nil, func(found *driver.Meta) (driver.Life, error) {
		if found != nil {
			return driver.Life{}, &driver.ConflictError{Found: *found}
		}
		return life, nil
	}, now)
	return m.Version, err
}

// Upsert implements driver.Upserter. At MaxEntries it fails as Insert does. It returns no
// conflict. It does not use known: a lookup is cheaper.
//
// Upsert calls plan once, and again if the record changes before the write. The second call
// is made under a lock, so plan must not use the driver. If plan panics, the panic is passed
// on, and nothing is written.
func (d *Driver[T]) Upsert(_ context.Context, key string, v T, _ *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
	if err := driver.CheckKey(key, 0); err != nil {
		return driver.Meta{}, err
	}
	shown := d.records.load(key).alive(now)
	life, err := plan(shown)
	if err != nil {
		return driver.Meta{}, err
	}
	for {
		var (
			written driver.Meta
			dead    *record[T]
		)
		d.records.compute(key, func(old *record[T]) (*record[T], change) {
			found := old.alive(now)
			switch {
			case d.closed.Load():
				err = ErrClosed
			case !same(found, shown):
				// Planned again without the lock, this call might never end: the calls
				// that get the lock before it change the record each time.
				shown = found
				life, err = plan(found)
			}
			if err != nil {
				return nil, leave
			}
			if old == nil && !d.reserve() {
				err = errNoRoom
				return nil, leave
			}
			dead = old.endedBy(life, now)
			r := d.put(old, key, v, life)
			written = r.meta()
			return r, put
		})
		d.queueDeath(dead, written.CreatedAt, false)
		if err != errNoRoom {
			return written, err
		}
		if !d.makeRoom() {
			return driver.Meta{}, d.errFull
		}
		err = nil
	}
}

// errNoRoom is internal: callers get driver.ErrFull.
var errNoRoom = errors.New("no room")

// same reports whether a and b are the same record in the same state, or both nil.
func same(a, b *driver.Meta) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// Replace implements driver.Driver.
func (d *Driver[T]) Replace(_ context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	var dead *record[T]
	d.records.compute(key, func(old *record[T]) (*record[T], change) {
		if err = d.match(key, old, was, now); err != nil {
			return nil, leave
		}
		dead = old.endedBy(life, now)
		r := d.put(old, key, v, life)
		version = r.version
		return r, put
	})
	d.queueDeath(dead, life.CreatedAt, false)
	return version, err
}

// Touch implements driver.Driver. It does not change the version, which counts writes of
// values.
func (d *Driver[T]) Touch(_ context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	d.records.compute(key, func(old *record[T]) (*record[T], change) {
		if err = d.match(key, old, was, now); err != nil {
			return nil, leave
		}
		version = old.version
		if life.CreatedAt != old.created {
			return d.place(old, key, old.value, life, version), put
		}
		before := old.expiry()
		switch old.setExpiry(life.ExpiresAt); {
		case !life.Alive(now):
			old.expires.Or(endedBit)
		case life.ExpiresAt < before:
			old.expires.Or(loweredBit)
		}
		if before == 0 || life.ExpiresAt < before {
			d.filed(d.wheel.file(old))
		}
		return nil, leave
	})
	return version, err
}

// match returns the error for a write planned for was if old does not match it. old is the
// record under key, nil if there is none.
func (d *Driver[T]) match(key string, old *record[T], was driver.Meta, now driver.Instant) error {
	if d.closed.Load() {
		return ErrClosed
	}
	if old == nil {
		return d.missing(key)
	}
	switch found := old.meta(); {
	case !found.Alive(now) || old.ended():
		if !found.Alive(d.clock.instant()) {
			old.expires.Or(endedBit) // so that no Slide of a Get that began before revives it
		}
		return driver.ErrNotFound
	case found != was:
		return &driver.ConflictError{Found: found}
	}
	return nil
}

// put makes the record that replaces old, which may be nil, with a version that no record
// has had.
func (d *Driver[T]) put(old *record[T], key string, v T, life driver.Life) *record[T] {
	return d.place(old, key, v, life, driver.Version(d.versions.Add(1)))
}

func (d *Driver[T]) place(old *record[T], key string, v T, life driver.Life, version driver.Version) *record[T] {
	r := newRecord(key, old)
	r.value = v
	r.created = life.CreatedAt
	r.version = version
	r.level = unfiled
	r.stripe = uint8(version % wheelStripes)
	if old != nil {
		r.stripe = old.stripe
	}
	r.setExpiry(life.ExpiresAt)
	if old != nil || life.ExpiresAt != 0 {
		d.filed(d.wheel.swap(old, r))
	}
	return r
}

// Delete implements driver.Driver.
func (d *Driver[T]) Delete(_ context.Context, key string) error {
	if d.records.load(key) == nil {
		if err := d.missing(key); err != driver.ErrNotFound {
			return err
		}
		return nil
	}
	var gone *record[T]
	d.records.compute(key, func(old *record[T]) (*record[T], change) {
		if gone = old; old != nil {
			d.take(old)
		}
		return nil, drop
	})
	if d.opts.Deletes && gone != nil {
		d.deleted(gone, d.clock.instant())
	}
	return nil
}

// Remove implements driver.Remover.
func (d *Driver[T]) Remove(_ context.Context, key string, was driver.Meta, now driver.Instant) (err error) {
	var gone *record[T]
	d.records.compute(key, func(old *record[T]) (*record[T], change) {
		if err = d.match(key, old, was, now); err != nil {
			return nil, leave
		}
		gone = old
		d.take(old)
		return nil, drop
	})
	if d.opts.Deletes && gone != nil {
		d.deleted(gone, now)
	}
	return err
}

// deleted queues r, which was removed at now, for OnExpiry if it was alive.
func (d *Driver[T]) deleted(r *record[T], now driver.Instant) {
	if r.alive(now) != nil {
		d.queueDeath(r, now, true)
	}
}

// reserve counts a record that is about to be added, and reports whether MaxEntries allows it.
func (d *Driver[T]) reserve() bool {
	if d.opts.MaxEntries == 0 {
		return true
	}
	for {
		n := d.count.Load()
		if n >= int64(d.opts.MaxEntries) {
			return false
		}
		if d.count.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// take removes r from the wheel and the count, before it is removed from the table.
func (d *Driver[T]) take(r *record[T]) {
	d.wheel.remove(r)
	if d.opts.MaxEntries > 0 {
		d.count.Add(-1)
	}
}

// Len returns the number of records held, dead ones not yet removed included.
func (d *Driver[T]) Len() int { return d.records.len() }

// Resolution implements driver.Driver: a millisecond.
func (d *Driver[T]) Resolution() time.Duration { return time.Millisecond }

// Close drops all records, and returns when the driver's goroutines and a running OnExpiry
// have ended. It returns a *driver.PanicError if OnExpiry has panicked; the driver is closed
// all the same. It may be called more than once.
func (d *Driver[T]) Close() error {
	if !d.closed.Swap(true) {
		close(d.stop)
	}
	d.done.Wait()
	// A write that began before closed was set has either written already, or writes to the
	// grid that clear drops. A later write sees closed.
	d.records.clear()
	d.wheel.close()
	return d.hooks.Err()
}
