package explore

import (
	"context"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// value identifies a written value. from is the id of the value that an update started from.
type value struct{ id, from int }

const (
	key     = "k"
	missing = "missing" // never stored
	exits   = -1        // from of a value at which PolicyOf ends its goroutine in mode exits
	bad     = "bad"     // every read of it finds a touch due, which fails at once
	aside   = "aside"   // every read of it finds a touch due, which fails before the program and lands at once in it
)

// many are further keys that are due; their touches are trips.
var many = [...]string{"many 0", "many 1", "many 2"}

// run is a call as it went.
type run struct {
	call
	w      *world
	index  int
	p      *process // nil where time passes
	cancel context.CancelFunc

	started, ended bool
	from, to       int // the steps in which it began and ended
	at             time.Time

	err   error
	value value       // read
	meta  driver.Meta // read or written
	wrote value       // written
	until time.Time   // of a touch
	drain error       // of Close

	done      time.Time // when it returned
	passed    time.Time // when a goroutine of any call last passed a lock
	active    time.Time // when its last trip other than a touch ended
	waited    bool      // for too long
	left      bool      // its caller's context has ended
	sentLeft  int       // touches that it has started since
	trips     int
	faulted   bool           // a fault hit one of its trips, or its caller left
	unsure    bool           // a write of its value, or its deletion, may have landed without an answer
	retired   driver.Instant // created_at of the life that it retired
	deleted   int            // step in which its deletion or retirement took effect; zero: none
	foundGone int            // step of the last effect that found nothing there
	ownTouch  bool           // its own touch has found the record gone before it ended
	before    driver.Life    // what a save has read before it wrote
	saved     int            // step in which its save took effect
	readBack  *driver.Meta   // what a save has read first after that
}

// doing are the calls that a client makes, by name.
var doing = map[string]func(ctx context.Context, r *run, s *slidingttl.Store[value]){
	"get": func(ctx context.Context, r *run, s *slidingttl.Store[value]) { r.value, r.err = s.Get(ctx, key) },
	"entry": func(ctx context.Context, r *run, s *slidingttl.Store[value]) {
		e, err := s.Entry(ctx, key)
		r.value, r.meta, r.err = e.Value, e.Meta, err
	},
	"peek": func(ctx context.Context, r *run, s *slidingttl.Store[value]) {
		e, err := s.Peek(ctx, key)
		r.value, r.meta, r.err = e.Value, e.Meta, err
	},
	"getmulti": func(ctx context.Context, r *run, s *slidingttl.Store[value]) {
		values, err := s.GetMulti(ctx, []string{missing, key})
		v, ok := values[key]
		if r.value, r.err = v, err; err == nil && !ok {
			r.err = slidingttl.ErrNotFound
		}
	},
	"touch": func(ctx context.Context, r *run, s *slidingttl.Store[value]) { r.until, r.err = s.Touch(ctx, key) },
	"keep":  func(ctx context.Context, r *run, s *slidingttl.Store[value]) { r.err = s.Keep(ctx, key) },
	"touchentry": func(ctx context.Context, r *run, s *slidingttl.Store[value]) {
		e, err := s.Peek(ctx, key)
		if err == nil {
			e, err = s.TouchEntry(ctx, key, e)
		}
		r.value, r.meta, r.err = e.Value, e.Meta, err
	},
	"insert": func(ctx context.Context, r *run, s *slidingttl.Store[value]) {
		r.wrote = r.w.newValue(0)
		e, err := s.InsertEntry(ctx, key, r.wrote)
		r.meta, r.err = e.Meta, err
	},
	"upsert": func(ctx context.Context, r *run, s *slidingttl.Store[value]) {
		r.wrote = r.w.newValue(0)
		e, err := s.UpsertEntry(ctx, key, r.wrote)
		r.meta, r.err = e.Meta, err
	},
	"update": func(ctx context.Context, r *run, s *slidingttl.Store[value]) {
		r.wrote, r.err = s.Update(ctx, key, func(v value) (value, error) { return r.w.newValue(v.id), nil })
	},
	"delete": func(ctx context.Context, r *run, s *slidingttl.Store[value]) { r.err = s.Delete(ctx, key) },
	"deleteentry": func(ctx context.Context, r *run, s *slidingttl.Store[value]) {
		e, err := s.Peek(ctx, key)
		if err == nil {
			err = s.DeleteEntry(ctx, key, e)
		}
		r.value, r.meta, r.err = e.Value, e.Meta, err
	},
	"find": func(ctx context.Context, r *run, _ *slidingttl.Store[value]) {
		r.value, r.err = r.p.wrapped.Get(ctx, key)
	},
	"save": func(ctx context.Context, r *run, _ *slidingttl.Store[value]) {
		r.wrote = r.w.newValue(0)
		r.err = r.p.wrapped.Upsert(ctx, key, r.wrote)
	},
	"remove":  func(ctx context.Context, r *run, _ *slidingttl.Store[value]) { r.err = r.p.wrapped.Delete(ctx, key) },
	"tighter": func(_ context.Context, r *run, _ *slidingttl.Store[value]) { r.p.setPolicy(tight) },
	"base":    func(_ context.Context, r *run, _ *slidingttl.Store[value]) { r.p.setPolicy(base) },
	"looser":  func(_ context.Context, r *run, _ *slidingttl.Store[value]) { r.p.setPolicy(loose) },
	"close":   func(ctx context.Context, r *run, _ *slidingttl.Store[value]) { r.drain = r.p.close(ctx) },
	"abort": func(ctx context.Context, r *run, _ *slidingttl.Store[value]) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		r.drain = r.p.close(ctx)
	},
	"close-soon": func(ctx context.Context, r *run, _ *slidingttl.Store[value]) {
		ctx, cancel := context.WithTimeout(ctx, soon)
		defer cancel()
		r.drain = r.p.close(ctx)
	},
	"bad": func(ctx context.Context, r *run, s *slidingttl.Store[value]) { _, r.err = s.Get(ctx, bad) },
	"batch": func(ctx context.Context, r *run, s *slidingttl.Store[value]) {
		_, r.err = s.GetMulti(ctx, append(many[:], key))
	},
	// exiting writes a value at which PolicyOf ends its goroutine in mode exits.
	"exiting": func(ctx context.Context, r *run, s *slidingttl.Store[value]) {
		r.wrote = r.w.newValue(exits)
		r.err = s.UpsertMulti(ctx, []slidingttl.Item[value]{{Key: key, Value: r.wrote}})
	},
	// poison stores such a value past all stores.
	"poison": func(ctx context.Context, r *run, _ *slidingttl.Store[value]) {
		v := r.w.newValue(exits)
		r.err = r.w.dial(r.p).save(ctx, func(*run) { r.w.store(v, r.w.truth.last().Life, r) })
	},
	"upsertmulti": func(ctx context.Context, r *run, s *slidingttl.Store[value]) {
		r.wrote = r.w.newValue(0)
		r.err = s.UpsertMulti(ctx, []slidingttl.Item[value]{{Key: key, Value: r.wrote}})
	},
	"retire": func(ctx context.Context, r *run, s *slidingttl.Store[value]) { r.err = s.Retire(ctx, key) },
	"flush":  func(ctx context.Context, r *run, s *slidingttl.Store[value]) { r.err = s.Flush(ctx) },
}

// passing are the calls that let time pass, by name. Each returns until when.
var passing = map[string]func(now time.Time, l driver.Life) time.Time{
	"before-expiry": func(_ time.Time, l driver.Life) time.Time { return l.ExpiresAt.Time().Add(-time.Millisecond) },
	"at-expiry":     func(_ time.Time, l driver.Life) time.Time { return l.ExpiresAt.Time() },
	"before-cap": func(_ time.Time, l driver.Life) time.Time {
		return l.CreatedAt.Time().Add(base.MaxLifetime - time.Millisecond)
	},
	"at-cap":  func(_ time.Time, l driver.Life) time.Time { return l.CreatedAt.Time().Add(base.MaxLifetime) },
	"moment":  func(now time.Time, _ driver.Life) time.Time { return now.Add(40 * time.Millisecond) },
	"late":    func(now time.Time, _ driver.Life) time.Time { return now.Add(150 * time.Millisecond) },
	"timeout": func(now time.Time, _ driver.Life) time.Time { return now.Add(5100 * time.Millisecond) },
	"minute":  func(now time.Time, _ driver.Life) time.Time { return now.Add(minute) },
}
