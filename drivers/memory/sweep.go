package memory

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// sweepStep is the least time between two sweeps, unless the first left work: sweeps
	// begin at multiples of it. So a record is removed at most this late, and a steady
	// stream of expiries costs 31 wake-ups a second.
	sweepStep = 32 * time.Millisecond
	// sweepBatch is how many records a sweep examines before it releases its lock.
	sweepBatch = 128
)

// sweeper removes dead records.
type sweeper[T any] struct {
	at   atomic.Int64  // when it wakes by itself, a driver.Instant; MaxInstant while awake
	wake chan struct{} // holds a token if it is to wake sooner

	batch sync.Mutex // held for a batch; guards all below and wheel.due
	dead  []*record[T]
}

// gone returns the expiry up to which records are removed: the time less Options.Retain. It is
// the wheel's time.
func (d *Driver[T]) gone() driver.Instant { return d.clock.instant().Add(-d.opts.Retain) }

// goes returns when a record with the expiry at is removed.
func (d *Driver[T]) goes(at driver.Instant) driver.Instant { return at.Add(d.opts.Retain) }

func (s *sweeper[T]) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// filed makes sure that the sweeper is awake at the time of the slot in which a record was
// filed.
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
		// From here on, filing a record leaves a token. So no slot is missed between the
		// call of next and the sleep.
		d.sweeper.at.Store(int64(driver.MaxInstant))
		more := d.removeBatch(d.gone())
		d.reportDeaths()
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
			wait = min(wait, sweepStep) // a test may move that clock
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
	// Their buckets are scattered in memory. A pass that only reads them overlaps the cache
	// misses, which the removals would wait for one by one.
	for _, r := range d.sweeper.dead {
		d.records.fetch(r.key())
	}
	for _, r := range d.sweeper.dead {
		d.expire(r, now)
	}
	clear(d.sweeper.dead)
	return more
}

// expire removes r, which the wheel returned as dead, unless it was touched or replaced
// since.
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
		d.queueDeath(r, r.expiry(), false)
	}
}

// makeRoom removes dead records, retained ones too, until another fits, and reports whether
// it does.
func (d *Driver[T]) makeRoom() bool {
	for more := true; more; {
		more = d.removeBatch(d.clock.instant())
		if d.count.Load() < int64(d.opts.MaxEntries) {
			return true
		}
	}
	return false
}

// deaths is the queue of ended records for which OnExpiry is still to be called.
type deaths[T any] struct {
	mu      sync.Mutex
	records []*ended[T]
}

// ended is a record whose life ended at its expiry, or at an earlier instant.
type ended[T any] struct {
	*record[T]
	at      driver.Instant
	deleted bool
}

// queueDeath queues r for OnExpiry, if r is not nil. r died at its expiry, or at if that is
// earlier.
func (d *Driver[T]) queueDeath(r *record[T], at driver.Instant, deleted bool) {
	if d.opts.OnExpiry == nil || r == nil {
		return
	}
	d.deaths.mu.Lock()
	d.deaths.records = append(d.deaths.records, &ended[T]{r, at, deleted})
	d.deaths.mu.Unlock()
	d.sweeper.rouse()
}

// reportDeaths calls OnExpiry for all queued records. It takes each off the queue first, so
// that OnExpiry is not called again for a record if it panics or exits.
func (d *Driver[T]) reportDeaths() {
	for !d.closed.Load() {
		r := d.deaths.pop()
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

func (m *deaths[T]) pop() *ended[T] {
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
