package hot

import (
	"time"

	"github.com/maypok86/otter/v2/stats"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Driver wraps another driver and holds what was read. It has the optional capabilities of the
// wrapped driver, except driver.Local, and is itself a driver.Latest and a driver.Checker: see
// [driver.As]. All methods are safe for concurrent use. It holds no resources but memory: the
// caller closes the wrapped driver.
type Driver[T any] struct {
	inner  driver.Driver[T]
	stale  bool // inner's reads may be stale, except driver.GetLatest
	bounds Bounds
	opts   Options[T]
	now    func() time.Time
	tier   *tier[T]
	reads  *stats.Counter
}

// New returns a driver over d. opts may be nil; it is copied. New does no I/O and starts
// nothing. An argument that breaks its rule is a *driver.InvalidError.
func New[T any](d driver.Driver[T], b Bounds, opts *Options[T]) (*Driver[T], error) {
	if d == nil {
		return nil, &driver.InvalidError{Field: "driver", Value: "nil", Rule: "is required"}
	}
	o := driver.Given(opts)
	if err := b.validate(o.SizeOf != nil); err != nil {
		return nil, err
	}
	t, err := newTier(b, o.SizeOf)
	if err != nil {
		return nil, err
	}
	h := &Driver[T]{inner: d, bounds: b, opts: o, now: time.Now, tier: t, reads: stats.NewCounter()}
	_, h.stale = driver.As[driver.Latest[T]](d)
	if clock, ok := driver.As[driver.Clock](d); ok {
		h.now = clock.Now
	}
	if o.Now != nil {
		h.now = o.Now
	}
	return h, nil
}

// Wrapped implements driver.Wrapper. Reads and writes by key go through the tier; scans, raw
// records and the clock are the wrapped driver's own. A driver.Local's reads would bypass the tier
// and save nothing.
func (d *Driver[T]) Wrapped(capability any) (any, driver.Way) {
	switch capability.(type) {
	case *driver.Latest[T], *driver.Checker:
		return d.inner, driver.Always
	case *driver.Clock, *driver.Scanner, *driver.Dying, *driver.RawReader, *driver.Eraser:
		return d.inner, driver.Past
	}
	return d.inner, driver.Through
}

// below returns the wrapped driver's capability C. driver.As exposes d's methods that need it only
// if the wrapped driver has it.
func below[C, T any](d *Driver[T]) C {
	c, _ := driver.As[C](d.inner)
	return c
}

// Resolution implements driver.Driver: that of the wrapped driver.
func (d *Driver[T]) Resolution() time.Duration { return d.inner.Resolution() }

// Forget makes the next read of key go to the store. Call it if another process has written
// or deleted the key. A read that is under way is not held.
func (d *Driver[T]) Forget(key string) { d.tier.forget(key) }

// ForgetAll is Forget for all keys. Call it if notifications may have been missed.
func (d *Driver[T]) ForgetAll() { d.tier.forgetAll() }

// Stats is what a Driver has done and holds.
type Stats struct {
	Hits    uint64 // reads that were answered from memory, by key
	Misses  uint64 // reads by key that went to the store, or joined one that did
	Records int    // held now, including expired ones and absences
}

// Stats returns what has been done so far, and what is held.
func (d *Driver[T]) Stats() Stats {
	s := d.reads.Snapshot()
	return Stats{Hits: s.Hits, Misses: s.Misses, Records: d.tier.held.EstimatedSize()}
}
