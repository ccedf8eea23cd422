package slidingttl

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Entry is a record with its life and version.
type Entry[T any] = driver.Entry[T]

// Instant is whole milliseconds since the Unix epoch, UTC; zero means none.
type Instant = driver.Instant

// Store keeps records of type T alive by access. Its methods are safe for
// concurrent use.
//
// Errors are an *[Error] around [ErrNotFound], [ErrExists], [ErrAlive],
// [ErrConflict], [ErrForeign], [ErrInvalid], [ErrRefused], [ErrAmbiguous] or the
// backing store's own. A context's error passes unchanged. An error leaves the record
// as it was, but for ErrAmbiguous.
type Store[T any] struct {
	d       driver.Driver[T]
	reads   driver.Driver[T]      // d as it is read from
	fresh   driver.Driver[T]      // d as it is read from where nothing stale will do
	stale   bool                  // reads may be stale
	local   driver.Local[T]       // d, if it is one
	quick   driver.Local[T]       // local, if all records have the store's policy
	both    driver.ReadToucher[T] // d, if it is one
	over    driver.Overwriter[T]  // d, if it is one
	policy  atomic.Pointer[policyRules]
	opts    Options[T]
	clock   driver.Clock
	step    time.Duration // the driver's resolution
	gate    gate
	stats   tally
	memo    *memo // nil over a local driver, which is as fast
	pairs   pairs
	touches toucher
}

// policyRules is a policy and what follows from it.
type policyRules struct {
	rules
	policy Policy
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
	s := &Store[T]{d: d, reads: d, fresh: d, opts: o, step: step}
	s.gate.init()
	if l, ok := driver.As[driver.Latest[T]](d); ok {
		s.fresh, s.stale = fresh[T]{l}, !o.Latest
	}
	if o.Latest {
		s.reads = s.fresh
	}
	s.both, _ = driver.As[driver.ReadToucher[T]](d)
	s.over, _ = driver.As[driver.Overwriter[T]](d)
	s.local, _ = driver.As[driver.Local[T]](d)
	if s.local == nil {
		s.memo = newMemo()
	} else if o.PolicyOf == nil && o.PolicyFor == nil && (o.Observer == nil || o.Observer.Read == nil) {
		s.quick = s.local
	}
	switch c, ok := driver.As[driver.Clock](d); {
	case o.Now != nil:
		s.clock = system(o.Now)
	case ok:
		s.clock = c
		if o.MaxSkew == 0 && s.local != nil {
			s.opts.MaxSkew = step
		} else if o.MaxSkew == 0 {
			s.opts.MaxSkew = max(step, serverSkew)
		}
	default:
		s.clock = system(time.Now)
	}
	if s.opts.MaxSkew == 0 {
		s.opts.MaxSkew = defaultMaxSkew
	}
	s.policy.Store(s.rulesFrom(p))
	s.touches = toucher{
		store:      d,
		again:      s.again,
		byValue:    o.PolicyOf != nil,
		clock:      s.clock,
		timeout:    o.TouchTimeout,
		patience:   o.TouchWait,
		background: o.Touches == Background,
		lowering:   newDamper(),
		local:      s.local != nil,
		stats:      &s.stats,
		memo:       s.memo,
		hooks:      hooks{onTouchError: o.OnTouchError, log: o.Logger, stats: &s.stats},
	}
	if o.Observer != nil {
		s.touches.hooks.observer = *o.Observer
	}
	if o.Strict {
		s.touches.patience = 0
	}
	s.touches.jitter.seed = maphash.MakeSeed()
	s.touches.drain.init(o.Queue, o.Workers)
	if s.local == nil {
		s.touches.drain.budget = newBudget(o.Budget)
	}
	if s.local == nil && !o.Strict {
		s.touches.drain.breaker = newBreaker(s.touches.breakerChanged)
	}
	s.touches.stop, s.touches.giveUp = context.WithCancel(context.Background())
	return s, nil
}

// Policy returns the store's policy.
func (s *Store[T]) Policy() Policy { return s.policy.Load().policy }

// SetPolicy gives the store another policy, at once and for all calls that follow.
// Records get it on their next access: one whose expiry lies beyond the new policy
// comes down to it then, and a longer life is what the next touch writes. It is
// refused where Options.PolicyOf or PolicyFor decides.
//
// While some processes have the new policy and others the old, the tighter may win
// over what the looser promised: a looser policy counts once every process has it.
// They do not write for each other's sake on every read, for a record's expiry is
// brought down at most once per eighth of the idle grace and slack by one process.
func (s *Store[T]) SetPolicy(p Policy) error {
	if s.opts.PolicyOf != nil || s.opts.PolicyFor != nil {
		return &InvalidError{Field: "SetPolicy", Value: p.String(), Rule: "must not be called where Options.PolicyOf or PolicyFor decides"}
	}
	if err := p.Validate(); err != nil {
		return err
	}
	s.policy.Store(s.rulesFrom(p))
	return nil
}

func (s *Store[T]) rulesFrom(p Policy) *policyRules {
	return &policyRules{rules: s.newRules(p), policy: p}
}

func (s *Store[T]) newRules(p Policy) rules {
	r := newRules(p, s.step, s.opts.MaxSkew)
	if s.local == nil && !p.Promote {
		r.share = (r.stored - r.keep) / 16
	}
	return r
}

// rulesOf returns the rules for the record of value v under key.
func (s *Store[T]) rulesOf(key string, v *T) (rules, error) {
	var p Policy
	switch {
	case s.opts.PolicyOf != nil:
		p = s.opts.PolicyOf(*v)
	case s.opts.PolicyFor != nil:
		p = s.opts.PolicyFor(key)
	default:
		return s.policy.Load().rules, nil
	}
	p = p.round()
	if err := p.Validate(); err != nil {
		name := "PolicyOf"
		if s.opts.PolicyOf == nil {
			name = "PolicyFor"
		}
		return rules{}, fmt.Errorf("policy by Options.%s: %w", name, err)
	}
	return s.newRules(p), nil
}

// begin lets a call in, which ends with s.gate.leave, unless it returns an error.
func (s *Store[T]) begin(ctx context.Context, op, key string) error {
	if key == "" {
		return wrap(ctx, op, driver.CheckKey(key, 0))
	}
	return s.beginMulti(ctx, op)
}

func (s *Store[T]) beginMulti(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil && !s.gate.isClosed() {
		return err
	}
	if !s.gate.enter() {
		return wrap(ctx, op, ErrClosed)
	}
	return nil
}

// Check asks the driver, at start-up, whether its store is configured to keep what
// the store's policy promises. It is nil where the driver has no such check. What
// Options.PolicyOf or PolicyFor may return is not known to it.
func (s *Store[T]) Check(ctx context.Context) error {
	if err := s.beginMulti(ctx, opCheck); err != nil {
		return err
	}
	defer s.gate.leave()
	c, ok := driver.As[driver.Checker](s.d)
	if !ok {
		return nil
	}
	return wrap(ctx, opCheck, c.Check(ctx, s.Policy().longest()))
}

// Now is the time by which the store judges: Options.Now, else the driver's clock,
// else the system's.
func (s *Store[T]) Now() time.Time { return s.clock.Now() }

// Stats returns what the store has done so far. It may be called after Close.
func (s *Store[T]) Stats() Stats {
	st := s.stats.stats()
	st.Pending = s.touches.drain.queue.len()
	st.BreakerOpen = s.touches.drain.breaker.open()
	return st
}

// Close makes further calls fail with ErrClosed and waits for the calls under way
// and for the touches that are queued, that run or that those calls find due, nearest
// death first and whatever the budget. If ctx ends first, or the breaker is open and the
// store still refuses a touch, it gives up the rest and says how much in a *[DrainError].
// The touches under way have then returned. The driver stays open. Closing again is
// no error.
func (s *Store[T]) Close(ctx context.Context) error {
	s.gate.close()
	return wrap(ctx, opClose, s.touches.close(ctx, &s.gate))
}
