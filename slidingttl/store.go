package slidingttl

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
	"github.com/slidingttl/slidingttl/slidingttl/internal/touches"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

// Policy is how long a record lives; see [policy.Policy].
type Policy = policy.Policy

// NoCap is the MaxLifetime of records that slide for as long as they are accessed.
const NoCap = policy.NoCap

// ParsePolicy is [policy.Parse]: it reads a policy such as "idle 30d, max 90d, slack 3d".
func ParsePolicy(text string) (Policy, error) { return policy.Parse(text) }

// Entry is a record with its life and version.
type Entry[T any] = driver.Entry[T]

// Instant is whole milliseconds since the Unix epoch, UTC; zero means none.
type Instant = driver.Instant

// Store keeps records of type T alive by access. Its methods are safe for concurrent use.
//
// They return an *[Error], around one of this package's errors or the backing store's own.
type Store[T any] struct {
	driver      driver.Driver[T]
	reads       driver.Driver[T]      // the driver as it is read from
	latest      driver.Driver[T]      // as it is read from if the read must not be stale
	stale       bool                  // reads may be stale
	local       driver.Local[T]       // the driver, if it is one
	quick       driver.Local[T]       // local, if all records have the store's policy
	slider      driver.Slider[T]      // quick, if it is one, has the clock, and nothing else is to see touches
	readToucher driver.ReadToucher[T] // the driver, if it is one
	overwriter  driver.Overwriter[T]  // the driver, if it is one
	upserter    driver.Upserter[T]    // the driver, if it is one
	rules       atomic.Pointer[rules.Rules]
	asked       atomic.Pointer[rules.Rules] // of the policy that PolicyOf or PolicyFor returned last
	opts        Options[T]
	clock       driver.Clock
	learner     driver.Learner // the clock, if it is one
	otherClock  bool           // it is Options.Now, and the driver may have another
	step        time.Duration  // the driver's resolution
	gate        gate
	stats       tally.Tally
	hooks       hooks
	memo        *touches.Memo // nil over a local driver, which is as fast
	touches     *touches.Touches
}

// New returns a store over d under policy p. opts may be nil; it is copied.
//
// New does no I/O and starts nothing. The caller closes d, if it has to be closed, after the
// store. Several stores may share a driver. A policy or option that breaks its rule is an
// *[InvalidError] that names it.
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
	o, err := driver.Given(opts).validate()
	if err != nil {
		return nil, err
	}
	s := &Store[T]{driver: d, reads: d, latest: d, step: step}
	s.gate.init()
	if l, ok := driver.As[driver.Latest[T]](d); ok {
		s.latest, s.stale = latestReads[T]{l}, !o.Latest
	}
	if o.Latest {
		s.reads = s.latest
	}
	s.readToucher, _ = driver.As[driver.ReadToucher[T]](d)
	s.upserter, _ = driver.As[driver.Upserter[T]](d)
	s.overwriter, _ = driver.As[driver.Overwriter[T]](d)
	s.local, _ = driver.As[driver.Local[T]](d)
	s.hooks = hooks{onTouchError: o.OnTouchError, observer: driver.Given(o.Observer), log: o.Logger, stats: &s.stats}
	if s.local == nil {
		s.memo = touches.NewMemo(o.Remember)
	} else if o.PolicyOf == nil && o.PolicyFor == nil && s.hooks.observer.Read == nil {
		s.quick = s.local
		if o.Now == nil && s.hooks.observer.Touch == nil && s.readToucher == nil {
			s.slider, _ = driver.As[driver.Slider[T]](d)
		}
	}
	s.opts = o
	s.clock, s.opts.MaxSkew = clockOf(d, o.Now, o.MaxSkew, s.local != nil)
	s.otherClock = o.Now != nil && s.local == nil
	s.learner, _ = s.clock.(driver.Learner)
	s.rules.Store(s.rulesFor(p))
	s.asked.Store(s.rules.Load())
	c := touches.Config{
		Write: s.writeLife, Read: s.readForTouch,
		Clock: s.clock, Tally: &s.stats, Memo: s.memo,
		Local: s.local != nil, ByValue: o.PolicyOf != nil, Background: o.Touches == Background, Strict: o.Strict,
		MaxSkew: s.opts.MaxSkew, Timeout: o.TouchTimeout, Wait: o.TouchWait, Budget: o.Budget, Queue: o.Queue, Workers: o.Workers,
	}
	if o.OnTouchError != nil || s.hooks.observer.Touch != nil {
		c.Ended, c.Failures = s.hooks.touch, s.hooks.observer.Touch == nil
	}
	if s.hooks.log != nil || s.hooks.observer.Breaker != nil || s.hooks.observer.Budget != nil {
		c.Changed = s.hooks.changed
	}
	if o.PolicyOf == nil {
		c.Rules = func(key string) (*rules.Rules, error) { return s.rulesOf(key, nil) }
	}
	s.touches = touches.New(c)
	return s, nil
}

// Policy returns the store's policy.
func (s *Store[T]) Policy() Policy { return s.rules.Load().Policy }

// SetPolicy gives the store another policy, at once and for all calls that follow.
//
// Records get it on their next access: an expiry beyond the new policy is lowered to it, and a
// longer life is written by the next touch. The store forgets the keys that it remembers, so that the
// next Keep of each reads. SetPolicy is refused if Options.PolicyOf or PolicyFor is set.
//
// While some processes have the new policy and others the old one, the tighter one may shorten what
// the looser one promised: a looser policy counts once every process has it. One process lowers the
// expiry of a record at most once per eighth of the idle grace and slack, as long as it lowers no more than some
// Options.Remember others meanwhile.
func (s *Store[T]) SetPolicy(p Policy) error {
	if s.opts.PolicyOf != nil || s.opts.PolicyFor != nil {
		return &InvalidError{Field: "SetPolicy", Value: p.String(), Rule: "must not be called where Options.PolicyOf or PolicyFor decides"}
	}
	if err := p.Validate(); err != nil {
		return err
	}
	s.rules.Store(s.rulesFor(p))
	s.memo.ForgetAll() // other processes lower what was remembered under the policy before
	return nil
}

func (s *Store[T]) rulesFor(p Policy) *rules.Rules {
	return rules.New(p, s.step, s.opts.MaxSkew, s.local == nil)
}

// rulesOf returns the rules for the record of value v under key.
func (s *Store[T]) rulesOf(key string, v *T) (*rules.Rules, error) {
	if s.opts.PolicyOf == nil && s.opts.PolicyFor == nil {
		return s.rules.Load(), nil
	}
	name := "PolicyOf"
	if s.opts.PolicyOf == nil {
		name = "PolicyFor"
	}
	p, err := s.askPolicy(key, v)
	r := s.asked.Load()
	if err == nil && r.Policy == p {
		return r, nil
	}
	if err == nil {
		p = p.Round()
		err = p.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("policy by Options.%s: %w", name, err)
	}
	r = s.rulesFor(p)
	s.asked.Store(r)
	return r, nil
}

// askPolicy calls PolicyOf or PolicyFor. It may run on a goroutine of the store's, where a
// panic would end the process.
func (s *Store[T]) askPolicy(key string, v *T) (p Policy, err error) {
	if err := s.recovered(func() error {
		if s.opts.PolicyOf != nil {
			p = s.opts.PolicyOf(*v)
		} else {
			p = s.opts.PolicyFor(key)
		}
		return nil
	}); err != nil {
		return p, &InvalidError{Field: "policy", Value: "none", Rule: "must be returned", Err: err}
	}
	return p, nil
}

// Check asks the driver whether its store is configured to keep what the policy promises.
//
// Call it at start-up. It returns nil if the driver has no such check. It does not know what
// Options.PolicyOf or PolicyFor may return. If this process's clock is behind, as created_at of records
// that it read in the last minute shows, or one of those is wrong, Check says so.
func (s *Store[T]) Check(ctx context.Context) error {
	return s.call(ctx, opCheck, func() error {
		if behind := s.touches.Behind(); behind != 0 {
			return &InvalidError{Field: "clock", Value: behind.String() + " behind", Rule: "must be at most Options.MaxSkew behind the clocks that created the records read in the last minute"}
		}
		if c, ok := driver.As[driver.Checker](s.driver); ok {
			p := s.Policy()
			longest := p.Longest() // a lowering leaves MaxSkew more, for clocks that are ahead
			return c.Check(ctx, longest+min(s.opts.MaxSkew, p.MaxLifetime-longest))
		}
		return nil
	})
}

// Now returns the store's time; see Options.Now.
func (s *Store[T]) Now() time.Time { return s.clock.Now() }
