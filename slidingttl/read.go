package slidingttl

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

// Get returns the value under key and touches the record if that is due.
//
// The value is returned even if the touch failed, was late or was cut short by ctx; see
// Options.TouchWait, Strict and OnTouchError. ErrNotFound: absent, dead of idleness or
// age, or found gone by the touch that Get waited for.
func (s *Store[T]) Get(ctx context.Context, key string) (T, error) {
	// What access does for nearly every read of a local store, in few enough
	// instructions that the processor is on to the next read before this one's
	// record has come from memory: of a million keys that is a third of the time.
	if s.quick != nil && !s.gate.closed.Load() {
		if v, m, err := s.quick.Load(key); err == nil {
			rules := s.rules.Load()
			_, latest := s.clock.Bounds()
			settled := m.ExpiresAt-latest >= rules.Near() && rules.Settled(m.Life, latest)
			if (settled || rules.Settled(m.Life, driver.Ceil(s.clock.Now()))) && ctx.Err() == nil {
				s.stats.Add(tally.Hits)
				return *v, nil
			}
			return s.get(ctx, key, v, m)
		}
	}
	return s.get(ctx, key, nil, driver.Meta{})
}

// get is Get of a record that has been loaded as v and m, unless v is nil.
//
//go:noinline
func (s *Store[T]) get(ctx context.Context, key string, v *T, m driver.Meta) (value T, err error) {
	r := readResult[T]{value: v, meta: m}
	if err = s.access(ctx, opGet, key, &r); err == nil {
		value = *r.value
	}
	return value, err
}

// Entry is Get, with the record's life and version: as stored after the touch
// where the call waited for one, as read otherwise.
func (s *Store[T]) Entry(ctx context.Context, key string) (Entry[T], error) {
	var r readResult[T]
	err := s.access(ctx, opGet, key, &r)
	return r.entry(err)
}

// Peek returns the record under key and never touches it.
func (s *Store[T]) Peek(ctx context.Context, key string) (Entry[T], error) {
	call, err := s.begin(ctx, opPeek, key)
	if err != nil {
		return Entry[T]{}, err
	}
	defer call.leave()
	var r readResult[T]
	err = s.read(ctx, s.reads, opPeek, key, &r)
	return r.entry(err)
}

// access is a call that reads the record under key and touches it if that is due.
func (s *Store[T]) access(ctx context.Context, op, key string, r *readResult[T]) error {
	call, err := s.begin(ctx, op, key)
	if err != nil {
		return err
	}
	defer call.leave()
	return s.readAndTouch(ctx, op, key, r)
}

// readAndTouch reads the record under key and touches it if that is due, in the same wait
// where that is foreseen.
func (s *Store[T]) readAndTouch(ctx context.Context, op, key string, r *readResult[T]) error {
	if err := s.readForAccess(ctx, op, key, r, false); err != nil || r.settled {
		return err
	}
	_, err := s.touchIfDue(ctx, key, r)
	return err
}

// readForAccess reads the live record under key for an access, and touches it in the same
// wait where that is foreseen or asked for.
func (s *Store[T]) readForAccess(ctx context.Context, op, key string, r *readResult[T], asked bool) error {
	if s.readToucher != nil && !driver.MayUndo(ctx) {
		if done, err := s.readTouch(ctx, op, key, r, asked); done {
			return wrap(ctx, op, err)
		}
	}
	return s.read(ctx, s.reads, op, key, r)
}

// read reads the live record under key from d, unless r has been loaded.
func (s *Store[T]) read(ctx context.Context, d driver.Driver[T], op, key string, r *readResult[T]) (err error) {
	r.op, r.since, r.began = op, s.memo.Clock(), s.hooks.reading()
	var began driver.Instant // unknown for a local store, where a read costs less than the clock
	if s.local == nil {
		began = driver.Floor(s.clock.Now())
	}
	if r.value == nil {
		err = s.load(ctx, d, key, r)
	}
	return wrap(ctx, op, s.judge(ctx, key, r, began, err))
}

// readResult is what a read found and learned.
type readResult[T any] struct {
	value   *T // not to be written to; nil: there is no record
	meta    driver.Meta
	rules   *policy.Rules
	op      string
	since   uint64          // the memo's clock before it
	began   time.Time       // if somebody asks
	before  driver.Life     // what the record goes on with; zero: it has none but its own
	late    <-chan struct{} // ends the wait for the touch, where that has begun
	settled bool            // no touch is due
	exact   bool            // the touch is for this very version
	urgent  bool            // the caller waits for the touch to its end
}

// entry is what a caller gets of r.
func (r *readResult[T]) entry(err error) (Entry[T], error) {
	if err != nil {
		return Entry[T]{}, err
	}
	return Entry[T]{Value: *r.value, Meta: r.meta}, nil
}

// load reads the record under key from d.
func (s *Store[T]) load(ctx context.Context, d driver.Driver[T], key string, r *readResult[T]) (err error) {
	if s.local != nil {
		r.value, r.meta, err = s.local.Load(key)
	} else {
		var e driver.Entry[T]
		e, err = d.Get(ctx, key)
		r.value, r.meta = &e.Value, e.Meta
	}
	if err != nil {
		r.value = nil
	}
	return err
}

// judge says what a read of key that began at began has found or failed with, counts it,
// and remembers it.
//
// A record whose expiry passed while it was read may have been touched meanwhile,
// and so may one that a stale read shows dead: those are read again before they
// are said not to be there.
func (s *Store[T]) judge(ctx context.Context, key string, r *readResult[T], began driver.Instant, err error) error {
	doubt := began
	if s.stale {
		doubt = began.Add(-staleness - s.opts.MaxSkew) // the touch that is not seen may be by a clock behind
	}
	for {
		if err == nil {
			r.rules, err = s.rulesOf(key, r.value)
		}
		if err == nil {
			err = s.judgeLife(r)
		}
		if err != ErrNotFound || r.value == nil || !r.rules.Alive(r.meta.Life, doubt) {
			break
		}
		doubt = driver.Floor(s.clock.Now())
		err = s.load(ctx, s.latest, key, r)
	}
	switch {
	case err == nil:
		if !driver.MayUndo(ctx) {
			s.memo.Read(key, &r.meta, r.since)
		}
		s.stats.Add(tally.Hits)
		s.hooks.read(ctx, r.op, r.began, ReadHit, nil)
	case errors.Is(err, ErrNotFound):
		s.miss(ctx, key, r)
	case err == ErrForeign:
		s.hooks.read(ctx, r.op, r.began, ReadForeign, nil)
	default:
		s.hooks.read(ctx, r.op, r.began, ReadFailed, err)
	}
	return err
}

// staleness is how old an answer of a driver may be that is a driver.Latest.
const staleness = 10 * time.Second

// latestReads makes the reads of a driver.Latest the ones that are not stale.
type latestReads[T any] struct{ driver.Latest[T] }

func (l latestReads[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	return l.Latest.Latest(ctx, key)
}

// judgeLife says what is wrong with the record that was read: it is dead or refused.
func (s *Store[T]) judgeLife(r *readResult[T]) error {
	// Most reads come out the same whenever within its bounds the time is.
	_, latest := s.clock.Bounds()
	alive := r.rules.AliveNear(r.meta.Life, latest)
	r.settled = alive && r.rules.Settled(r.meta.Life, latest)
	switch {
	case r.settled:
		return nil
	case !alive && !r.rules.Alive(r.meta.Life, driver.Floor(s.clock.Now())):
		return ErrNotFound
	case r.meta.CreatedAt == 0 && s.opts.Foreign == Reject:
		return ErrForeign
	}
	r.settled = r.meta.CreatedAt == 0 && s.opts.Foreign == ReadOnly
	return nil
}

// miss counts a read that found no live record under key, by what it died of, and
// forgets the key. r is what was found of it, if anything was.
func (s *Store[T]) miss(ctx context.Context, key string, r *readResult[T]) {
	was, known := &r.meta, s.memo.Forget(key)
	now, o := driver.Floor(s.clock.Now()), ReadAbsent
	rules, err := r.rules, error(nil)
	if r.value == nil {
		// Whether it died or was deleted can only be told by what was remembered.
		if was, rules = known, nil; was != nil && s.opts.PolicyOf == nil && !was.Alive(now) {
			rules, err = s.rulesOf(key, nil)
		}
	}
	s.stats.Add(tally.Misses)
	switch {
	case rules == nil || err != nil:
	case rules.DiedOfAge(was.Life):
		o = ReadDiedOfAge
		s.stats.Add(tally.DiedOfAge)
	default:
		o = ReadDiedIdle
		s.stats.Add(tally.DiedIdle)
	}
	s.hooks.read(ctx, r.op, r.began, o, nil)
}
