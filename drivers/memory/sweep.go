package memory

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// sweepStep is how far apart two sweeps are at least, unless the first left
	// work: they begin at multiples of it. A record is gone so long after it was to
	// go at most, and a steady stream of expiries costs 31 wake-ups a second.
	sweepStep = 32 * time.Millisecond
	// sweepBatch is how many records a sweep looks at before others get a turn.
	sweepBatch = 128
)

// sweeper removes dead records.
type sweeper[T any] struct {
	at   atomic.Int64  // when it wakes by itself, a driver.Instant; MaxInstant while awake
	wake chan struct{} // holds a token where it is to look sooner

	batch sync.Mutex // held for a batch; guards all below and wheel.due
	dead  []*record[T]
}

// gone is up to which expiry records are no longer held. The wheel stands there: with
// Options.Retain it runs that much behind the time.
func (d *Driver[T]) gone() driver.Instant { return d.clock.instant().Add(-d.opts.Retain) }

// goes is when a record goes whose expiry is at.
func (d *Driver[T]) goes(at driver.Instant) driver.Instant { return at.Add(d.opts.Retain) }

func (s *sweeper[T]) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// filed sees to it that the sweeper is awake when the slot comes up in which a
// record was filed.
func (d *Driver[T]) filed(at driver.Instant) {
	if d.goes(at).RoundUp(sweepStep) < driver.Instant(d.sweeper.at.Load()) {
		d.sweeper.rouse()
	}
}

// sweep runs until stop is closed.
func (d *Driver[T]) sweep() {
	stopped := false
	defer func() {
		if stopped {
			d.done.Done()
			return
		}
		// OnExpiry called runtime.Goexit, as a test's FailNow does.
		go d.sweep()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// Whoever files from here on leaves a token, so that no slot is missed
		// between the look at the wheel and the sleep.
		d.sweeper.at.Store(int64(driver.MaxInstant))
		more := d.removeBatch(d.gone())
		d.tellMourned()
		if stopped = d.closed.Load(); stopped {
			return
		}
		if more {
			runtime.Gosched()
			continue
		}
		at := d.goes(d.wheel.next()).RoundUp(sweepStep)
		d.sweeper.at.Store(int64(at))
		wait := at.Time().Sub(d.clock.now())
		if d.opts.Now != nil && at != driver.MaxInstant {
			wait = min(wait, sweepStep) // that clock may be moved
		}
		timer.Reset(wait)
		select {
		case <-d.stop:
		case <-d.sweeper.wake:
		case <-timer.C:
		}
	}
}

// removeBatch removes records that are dead at now and reports whether there may be more.
func (d *Driver[T]) removeBatch(now driver.Instant) (more bool) {
	d.sweeper.batch.Lock()
	defer d.sweeper.batch.Unlock()
	d.sweeper.dead, more = d.wheel.due(now, d.sweeper.dead[:0], sweepBatch)
	// Their buckets lie all over memory. One pass that only asks for them waits for
	// many at a time, where the removals would wait for one after the other.
	for _, r := range d.sweeper.dead {
		d.records.fetch(r.key())
	}
	for _, r := range d.sweeper.dead {
		d.expire(r, now)
	}
	clear(d.sweeper.dead)
	return more
}

// expire removes r, which the wheel gave out as dead, unless it has lived on or
// another record has taken its place since.
func (d *Driver[T]) expire(r *record[T], now driver.Instant) {
	removed := false
	d.records.compute(r.key(), func(found *record[T]) (*record[T], change) {
		switch {
		case found != r:
		case r.life().Alive(now):
			d.filed(d.wheel.file(r))
		default:
			removed = true
			d.take(r)
			return nil, drop
		}
		return found, leave
	})
	if removed {
		d.mourn(r, r.expiry(), false)
	}
}

// makeRoom removes dead records, held ones too, until there is room for another, and reports
// whether there is.
func (d *Driver[T]) makeRoom() bool {
	for more := true; more; {
		more = d.removeBatch(d.clock.instant())
		if d.count.Load() < int64(d.opts.MaxEntries) {
			return true
		}
	}
	return false
}

// mourned are removed records for which OnExpiry is still to be called.
type mourned[T any] struct {
	mu      sync.Mutex
	records []*ended[T]
}

// ended is a record whose life ended at an instant, if its expiry had not passed by then.
type ended[T any] struct {
	*record[T]
	at      driver.Instant
	deleted bool
}

// mourn has OnExpiry told of r, which died, at the latest at an instant, unless it is nil.
func (d *Driver[T]) mourn(r *record[T], at driver.Instant, deleted bool) {
	if d.opts.OnExpiry == nil || r == nil {
		return
	}
	d.mourned.mu.Lock()
	d.mourned.records = append(d.mourned.records, &ended[T]{r, at, deleted})
	d.mourned.mu.Unlock()
	d.sweeper.rouse()
}

// tellMourned calls OnExpiry for all mourned records. Each is taken off the list first, so
// that OnExpiry is not called twice for it if it does not return.
func (d *Driver[T]) tellMourned() {
	for !d.closed.Load() {
		r := d.mourned.pop()
		if r == nil {
			return
		}
		last := r.entry()
		if last.ExpiresAt == 0 || last.ExpiresAt > r.at {
			last.ExpiresAt = r.at
		}
		why := d.opts.reason(last.Life)
		if r.deleted {
			why = Deleted
		}
		d.hooks.Call(func() { d.opts.OnExpiry(r.key(), last, why) })
	}
}

func (m *mourned[T]) pop() *ended[T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.records) == 0 {
		m.records = nil
		return nil
	}
	r := m.records[0]
	m.records[0] = nil
	m.records = m.records[1:]
	return r
}
