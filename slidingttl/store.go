package slidingttl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Store keeps records of type T alive by access. Its methods are safe for
// concurrent use.
//
// Errors are an *[Error] around [ErrNotFound], [ErrExists], [ErrConflict],
// [ErrForeign], [ErrInvalid] or the backing store's own. A context's error passes
// unchanged. An error leaves the record as it was, unless the backing store cannot
// tell (a write whose answer was lost).
type Store[T any] struct {
	d       driver.Driver[T]
	local   driver.Local[T] // d, if it is one
	quick   driver.Local[T] // local, if all records have the store's policy
	policy  Policy
	rules   rules                         // those of policy
	others  [4]atomic.Pointer[otherRules] // of what PolicyOf returned first
	opts    Options[T]
	clock   driver.Clock
	closed  atomic.Bool
	stats   tally
	memo    *memo
	touches toucher
}

// New returns a store over d under policy p. opts may be nil; it is copied. New
// does no I/O and starts nothing. The caller keeps d and closes it, if it has to
// be closed, after the store. Several stores may share a driver.
//
// A policy or option that breaks its rule is an *[InvalidError] that names it.
func New[T any](d driver.Driver[T], p Policy, opts *Options[T]) (*Store[T], error) {
	if d == nil {
		return nil, &InvalidError{Field: "driver", Value: "nil", Rule: "is required"}
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	step := d.Resolution()
	if step < time.Millisecond || step%time.Millisecond != 0 {
		return nil, &InvalidError{Field: "driver.Resolution", Value: step.String(), Rule: "must be a whole number of milliseconds, at least one"}
	}
	var o Options[T]
	if opts != nil {
		o = *opts
	}
	o, err := o.validate()
	if err != nil {
		return nil, err
	}
	local, _ := d.(driver.Local[T])
	s := &Store[T]{d: d, rules: newRules(p, step), policy: p, opts: o, local: local, memo: newMemo(local != nil)}
	if o.PolicyOf == nil {
		s.quick = local
	}
	switch c, ok := d.(driver.Clock); {
	case o.Now != nil:
		s.clock = system(o.Now)
	case ok:
		s.clock = c
	default:
		s.clock = system(time.Now)
	}
	s.touches = toucher{
		store:   d,
		clock:   s.clock,
		timeout: o.TouchTimeout,
		local:   local != nil,
		onError: o.OnTouchError,
		stats:   &s.stats,
		memo:    s.memo,
	}
	s.touches.queue.size, s.touches.queue.workers = o.Queue, o.Workers
	s.touches.stop, s.touches.giveUp = context.WithCancel(context.Background())
	return s, nil
}

// Get returns the value under key and touches the record if that is due.
//
// The value is returned even if the touch failed, was cut short by ctx or found
// the record gone; see Options.Strict and OnTouchError. ErrNotFound: absent, or
// dead of idleness or age.
func (s *Store[T]) Get(ctx context.Context, key string) (T, error) {
	// What access below does for nearly every read of a local store, in few enough
	// instructions that the processor is on to the next read before this one's
	// record has come from memory: of a million keys that is a third of the time.
	if s.quick != nil && !s.closed.Load() {
		if v, m, err := s.quick.Load(key); err == nil {
			_, latest := s.clock.Bounds()
			settled := s.rules.settled(m.Life, latest)
			if !settled {
				settled = s.rules.settled(m.Life, driver.Ceil(s.clock.Now()))
			}
			if settled && ctx.Err() == nil {
				s.stats.add(cHits)
				return *v, nil
			}
		}
	}
	var l look[T]
	if err := s.access(ctx, opGet, key, &l); err != nil {
		var zero T
		return zero, err
	}
	return *l.value, nil
}

// Entry is Get, with the record's life and version: as stored after the touch
// where the call waited for one, as read otherwise.
func (s *Store[T]) Entry(ctx context.Context, key string) (driver.Entry[T], error) {
	var l look[T]
	err := s.access(ctx, opGet, key, &l)
	return l.entry(err)
}

// Peek returns the record under key and never touches it.
func (s *Store[T]) Peek(ctx context.Context, key string) (driver.Entry[T], error) {
	if err := s.begin(ctx, opPeek, key); err != nil {
		return driver.Entry[T]{}, err
	}
	var l look[T]
	err := s.read(ctx, opPeek, key, &l)
	return l.entry(err)
}

// TouchEntry is the access behind a Peek, for callers who must look at a value
// before they let it count: it touches the record that was read as e, if that is
// due, and returns it as Entry would. A record that died or was replaced since is
// left alone, and e returned as it is.
func (s *Store[T]) TouchEntry(ctx context.Context, key string, e driver.Entry[T]) (driver.Entry[T], error) {
	if err := s.begin(ctx, opTouch, key); err != nil {
		return driver.Entry[T]{}, err
	}
	l := look[T]{value: &e.Value, meta: e.Meta, since: s.memo.now()}
	var err error
	if l.rules, err = s.rulesOf(&e.Value); err != nil {
		return driver.Entry[T]{}, wrap(ctx, opTouch, err)
	}
	if e.CreatedAt == 0 && s.opts.Foreign != Adopt {
		return e, nil
	}
	return l.entry(s.touchRead(ctx, opTouch, key, &l))
}

// access reads the record under key and has it touched if that is due.
func (s *Store[T]) access(ctx context.Context, op, key string, l *look[T]) error {
	if err := s.begin(ctx, op, key); err != nil {
		return err
	}
	if err := s.read(ctx, op, key, l); err != nil || l.settled {
		return err
	}
	return s.touchRead(ctx, op, key, l)
}

// begin rejects calls that cannot succeed.
func (s *Store[T]) begin(ctx context.Context, op, key string) error {
	if s.closed.Load() {
		return wrap(ctx, op, ErrClosed)
	}
	if key == "" {
		return wrap(ctx, op, driver.CheckKey(key, 0))
	}
	return ctx.Err()
}

// look is what a read found and learned.
type look[T any] struct {
	value   *T // not to be written to
	meta    driver.Meta
	rules   *rules
	since   uint64 // the memo's clock before it
	settled bool   // no touch is due
}

// entry is what a caller gets of l.
func (l *look[T]) entry(err error) (driver.Entry[T], error) {
	if err != nil {
		return driver.Entry[T]{}, err
	}
	return driver.Entry[T]{Value: *l.value, Meta: l.meta}, nil
}

// read reads the live record under key.
func (s *Store[T]) read(ctx context.Context, op, key string, l *look[T]) (err error) {
	l.since = s.memo.now()
	if s.local != nil {
		l.value, l.meta, err = s.local.Load(key)
	} else {
		var e driver.Entry[T]
		e, err = s.d.Get(ctx, key)
		l.value, l.meta = &e.Value, e.Meta
	}
	if err == nil {
		l.rules, err = s.rulesOf(l.value)
	}
	if err == nil {
		l.settled, err = s.judge(l.rules, &l.meta)
	}
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			s.stats.add(cMisses)
		}
		return wrap(ctx, op, err)
	}
	s.memo.read(key, &l.meta, l.since)
	s.stats.add(cHits)
	return nil
}

// judge returns an error if the record m is dead or refused, and whether it is
// settled that no touch of it is due.
func (s *Store[T]) judge(r *rules, m *driver.Meta) (settled bool, err error) {
	// Most reads come out the same whenever within its bounds the time is.
	_, latest := s.clock.Bounds()
	if r.settled(m.Life, latest) {
		return true, nil
	}
	if !r.alive(m.Life, latest) && !r.alive(m.Life, driver.Floor(s.clock.Now())) {
		return true, ErrNotFound
	}
	if m.CreatedAt == 0 && s.opts.Foreign != Adopt {
		if s.opts.Foreign == Reject {
			return true, ErrForeign
		}
		return true, nil
	}
	return false, nil
}

// touchRead has the record touched that was just read and may be due.
func (s *Store[T]) touchRead(ctx context.Context, op, key string, l *look[T]) error {
	a, due := s.due(key, &l.meta, l.rules, l.since)
	if !due {
		return nil
	}
	return wrap(ctx, op, s.settle(ctx, a, &l.meta))
}

// due returns what a touch of the record m needs to know, and whether one is due.
func (s *Store[T]) due(key string, m *driver.Meta, r *rules, since uint64) (access, bool) {
	now := s.clock.Now()
	at := driver.Ceil(now)
	if !r.due(m.Life, at) {
		return access{}, false
	}
	s.stats.add(cDue)
	return access{key: key, was: *m, rules: r, at: at, created: driver.Floor(now), since: since}, true
}

// rulesOf returns the rules for a record of value v.
func (s *Store[T]) rulesOf(v *T) (*rules, error) {
	if s.opts.PolicyOf == nil {
		return &s.rules, nil
	}
	p := s.opts.PolicyOf(*v)
	// Few kinds of record are the rule, and every access comes by here.
	for i := range s.others {
		if o := s.others[i].Load(); o == nil {
			break
		} else if o.policy == p {
			return &o.rules, nil
		}
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("Options.PolicyOf: %w", err)
	}
	o := &otherRules{p, newRules(p, s.rules.step)}
	for i := range s.others {
		if s.others[i].CompareAndSwap(nil, o) {
			break
		}
	}
	return &o.rules, nil
}

// otherRules are the rules of a policy that is not the store's.
type otherRules struct {
	policy Policy
	rules  rules
}

// GetMulti returns the values under keys and touches the records that are due, as
// Get does. Keys that are absent or dead are left out. With an error it returns
// what it could read.
func (s *Store[T]) GetMulti(ctx context.Context, keys []string) (map[string]T, error) {
	for _, k := range keys {
		if err := s.begin(ctx, opGetMulti, k); err != nil {
			return nil, err
		}
	}
	if len(keys) == 0 {
		return map[string]T{}, nil
	}
	since := s.memo.now()
	found, err := driver.GetMulti(ctx, s.d, keys)
	now := driver.Floor(s.clock.Now())
	values := make(map[string]T, len(found))
	var waiting []access
	for key, e := range found {
		r, perr := s.rulesOf(&e.Value)
		switch {
		case perr != nil:
			err = errors.Join(err, perr)
			continue
		case !r.alive(e.Life, now):
			continue
		case e.CreatedAt == 0 && s.opts.Foreign == Reject:
			err = errors.Join(err, ErrForeign)
			continue
		}
		values[key] = e.Value
		if e.CreatedAt == 0 && s.opts.Foreign == ReadOnly {
			continue
		}
		s.memo.read(key, &e.Meta, since)
		if a, due := s.due(key, &e.Meta, r, since); due {
			if s.opts.Touches == Wait || s.touches.local || !s.touches.push(ctx, a) {
				waiting = append(waiting, a)
			}
		}
	}
	s.stats.addN(cHits, len(values))
	s.stats.addN(cMisses, distinct(keys)-len(values))
	if terr := s.touches.waitAll(ctx, waiting, s.opts.Workers); s.opts.Strict {
		err = errors.Join(err, terr)
	}
	return values, wrap(ctx, opGetMulti, err)
}

// PeekMulti returns the records under keys and touches none. Keys that are absent
// or dead are left out. With an error it returns what it could read.
func (s *Store[T]) PeekMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	for _, k := range keys {
		if err := s.begin(ctx, opPeek, k); err != nil {
			return nil, err
		}
	}
	if len(keys) == 0 {
		return map[string]driver.Entry[T]{}, nil
	}
	found, err := driver.GetMulti(ctx, s.d, keys)
	now := driver.Floor(s.clock.Now())
	for key, e := range found {
		r, perr := s.rulesOf(&e.Value)
		if perr == nil && e.CreatedAt == 0 && s.opts.Foreign == Reject {
			perr = ErrForeign
		}
		if perr != nil {
			err = errors.Join(err, perr)
		}
		if perr != nil || !r.alive(e.Life, now) {
			delete(found, key)
		}
	}
	s.stats.addN(cHits, len(found))
	s.stats.addN(cMisses, distinct(keys)-len(found))
	return found, wrap(ctx, opPeek, err)
}

func distinct(keys []string) int {
	seen := make(map[string]struct{}, len(keys))
	for _, k := range keys {
		seen[k] = struct{}{}
	}
	return len(seen)
}

// Insert writes v under key as a new record. ErrExists: a live record is there,
// and stays as it is.
func (s *Store[T]) Insert(ctx context.Context, key string, v T) error {
	_, err := s.InsertEntry(ctx, key, v)
	return err
}

// InsertEntry is Insert, and returns the record as written.
func (s *Store[T]) InsertEntry(ctx context.Context, key string, v T) (driver.Entry[T], error) {
	r, err := s.beginWrite(ctx, opInsert, key, v)
	if err != nil {
		return driver.Entry[T]{}, err
	}
	start := s.clock.Now()
	now, life := driver.Floor(start), r.fresh(start)
	version, err := s.d.Insert(ctx, key, v, life, now)
	var conflict *driver.ConflictError
	if errors.As(err, &conflict) {
		if over, rerr := s.deadByCap(ctx, key, conflict.Found, now); rerr != nil {
			return driver.Entry[T]{}, wrap(ctx, opInsert, rerr)
		} else if over == nil {
			return driver.Entry[T]{}, wrap(ctx, opInsert, exists(conflict))
		} else if version, err = s.d.Replace(ctx, key, v, *over, life, now); errors.As(err, &conflict) {
			err = exists(conflict)
		}
	}
	if err != nil {
		return driver.Entry[T]{}, wrap(ctx, opInsert, err)
	}
	m := driver.Meta{Life: life, Version: version}
	s.memo.wrote(key, m)
	return driver.Entry[T]{Value: v, Meta: m}, nil
}

// exists is ErrExists with the store's own error, if it had one.
func exists(c *driver.ConflictError) error {
	if c.Err == nil {
		return ErrExists
	}
	return fmt.Errorf("%w: %w", ErrExists, c.Err)
}

// deadByCap returns the record found in an Insert's way if it is past its cap,
// which a store cannot tell; nil if it is alive.
func (s *Store[T]) deadByCap(ctx context.Context, key string, found driver.Meta, now driver.Instant) (*driver.Meta, error) {
	r := &s.rules
	if s.opts.PolicyOf != nil {
		e, err := s.d.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		if r, err = s.rulesOf(&e.Value); err != nil {
			return nil, err
		}
		found = e.Meta
	}
	if r.alive(found.Life, now) {
		return nil, nil
	}
	return &found, nil
}

// Upsert writes v under key. Over a live record it keeps created_at and counts as
// an access; over none, or a dead one, it starts a new life. ErrConflict: too many
// others wrote the record meanwhile.
func (s *Store[T]) Upsert(ctx context.Context, key string, v T) error {
	r, err := s.beginWrite(ctx, opUpsert, key, v)
	if err != nil {
		return err
	}
	plan := func(found *driver.Meta) (driver.Life, error) {
		now := s.clock.Now()
		switch {
		case found == nil || !r.alive(found.Life, driver.Floor(now)):
			return r.fresh(now), nil
		case found.CreatedAt == 0 && s.opts.Foreign != Adopt:
			return driver.Life{}, ErrForeign
		}
		return r.rewritten(found.Life, now, s.opts.PolicyOf != nil), nil
	}
	meta, err := driver.Upsert(ctx, s.d, key, v, s.memo.known(key), plan, driver.Floor(s.clock.Now()))
	if err != nil {
		s.memo.forget(key)
		return wrap(ctx, opUpsert, err)
	}
	s.memo.wrote(key, meta)
	return nil
}

func (s *Store[T]) beginWrite(ctx context.Context, op, key string, v T) (*rules, error) {
	if err := s.begin(ctx, op, key); err != nil {
		return nil, err
	}
	r, err := s.rulesOf(&v)
	return r, wrap(ctx, op, err)
}

// Delete removes the record under key. An absent key is no error. A touch that is
// under way does not bring it back.
func (s *Store[T]) Delete(ctx context.Context, key string) error {
	if err := s.begin(ctx, opDelete, key); err != nil {
		return err
	}
	s.memo.forget(key)
	return wrap(ctx, opDelete, s.d.Delete(ctx, key))
}

// Check asks the driver, at start-up, whether its store is configured to keep what
// the store's policy promises. It is nil where the driver has no such check. What
// Options.PolicyOf may return is not known to it.
func (s *Store[T]) Check(ctx context.Context) error {
	if s.closed.Load() {
		return wrap(ctx, opCheck, ErrClosed)
	}
	c, ok := s.d.(driver.Checker)
	if !ok {
		return nil
	}
	return wrap(ctx, opCheck, c.Check(ctx, s.policy.longest()))
}

// Now is the time by which the store judges: Options.Now, else the driver's clock,
// else the system's.
func (s *Store[T]) Now() time.Time { return s.clock.Now() }

// Stats returns what the store has done so far. It may be called after Close.
func (s *Store[T]) Stats() Stats {
	st := s.stats.stats()
	st.Pending = s.touches.queue.len()
	return st
}

// Close makes further calls fail with ErrClosed and waits for the touches that
// are queued or under way. If ctx ends first it gives up the rest and says how
// many in a *[DrainError]. Calls of the driver that are under way have returned
// when Close returns. The driver stays open. Closing again is no error.
func (s *Store[T]) Close(ctx context.Context) error {
	s.closed.Store(true)
	return wrap(ctx, opClose, s.touches.close(ctx))
}
