package slidingttl

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

// Get returns the value under key and touches the record if that is due.
//
// It returns the value even if the touch failed, was late or was cut short by ctx; see
// Options.TouchWait, Strict and OnTouchError. ErrNotFound: the record is absent, dead of idleness
// or age, or was gone when the touch that Get waited for was made.
func (s *Store[T]) Get(ctx context.Context, key string) (value T, err error) {
	// This is all that nearly every read of a local store needs, in so few instructions that
	// the processor begins the next read before this one's record has come from memory: a
	// third of the time, of a million keys.
	if s.quick == nil || s.gate.closed.Load() {
		return s.get(ctx, key, nil, driver.Meta{})
	}
	rules := s.rules.Load()
	if s.slider != nil && rules.Exact() {
		// The processor reads the clock when all loads before it are done: so the clock is first,
		// and the access is at its time. The value is on its way while Slide waits for the record.
		now := s.slider.Next()
		v, m, at, err := s.slider.Load(key)
		if err == nil {
			value = *v
			to, ok := rules.Slid(m.Life, now)
			switch {
			case !ok || ctx.Err() != nil:
			case m.ExpiresAt-now < rules.Near(): // it may have died since now
			case s.rules.Load() != rules: // it may have been written by newer ones
			case s.touches.Lowers(key, 0):
			case to == m.ExpiresAt:
				s.stats.Add(tally.Hits)
				return value, nil
			case s.slide(ctx, key, at, m.ExpiresAt, to):
				return value, nil
			}
		}
		return s.get(ctx, key, v, m)
	}
	v, m, _, err := s.quick.Load(key)
	if err == nil {
		earliest, latest := s.clock.Bounds()
		noTouch := m.ExpiresAt-latest >= rules.Near() && rules.NeedsNoTouch(m.Life, earliest, latest)
		if !noTouch {
			now := driver.Ceil(s.clock.Now())
			noTouch = rules.NeedsNoTouch(m.Life, now, now)
		}
		if noTouch && ctx.Err() == nil && !s.touches.Lowers(key, 0) {
			s.stats.Add(tally.Hits)
			return *v, nil
		}
	}
	return s.get(ctx, key, v, m)
}

// slide makes the touch of a hit, as a call that Close waits for.
func (s *Store[T]) slide(ctx context.Context, key string, at *atomic.Int64, was, to driver.Instant) (slid bool) {
	under := s.gate.enter()
	if under == nil {
		return false
	}
	defer s.gate.leave(under)
	if slid = !driver.MayUndo(ctx) && s.slider.Slide(ctx, key, at, was, to); slid {
		s.stats.Add(tally.Slides)
	}
	return slid
}

// get is Get. Unless v is nil the record has been loaded, as v and m.
//
//go:noinline
func (s *Store[T]) get(ctx context.Context, key string, v *T, m driver.Meta) (value T, err error) {
	r := readResult[T]{op: opGet, value: v, meta: m}
	if err = s.access(ctx, key, &r); err == nil {
		value = *r.value
	}
	return value, err
}

// Entry is Get, and returns the record's life and version too.
//
// If the call waited for a touch, they are as stored after it, else as read.
func (s *Store[T]) Entry(ctx context.Context, key string) (Entry[T], error) {
	r := readResult[T]{op: opGet}
	err := s.access(ctx, key, &r)
	return r.entry(err)
}

// Peek returns the record under key and never touches it.
func (s *Store[T]) Peek(ctx context.Context, key string) (Entry[T], error) {
	r := readResult[T]{op: opPeek}
	err := s.callKey(ctx, opPeek, key, func() error { return s.read(ctx, s.reads, key, &r) })
	return r.entry(err)
}

// access is a call that is readAndTouch. It does callKey's work itself, which saves a hot read
// some nanoseconds.
func (s *Store[T]) access(ctx context.Context, key string, r *readResult[T]) error {
	if key == "" {
		return wrap(ctx, r.op, driver.CheckKey(key, 0))
	}
	under, err := s.begin(ctx, r.op)
	if err != nil {
		return err
	}
	defer s.gate.leave(under)
	return wrap(ctx, r.op, s.readAndTouch(ctx, key, r))
}

// readAndTouch reads the record under key and touches it if that is due.
func (s *Store[T]) readAndTouch(ctx context.Context, key string, r *readResult[T]) error {
	if err := s.readForAccess(ctx, key, r, false); err != nil || r.needsNoTouch {
		return err
	}
	_, err := s.touchIfDue(ctx, key, r)
	return err
}

// readForAccess reads the live record under key, and may touch it in the same wait: where a
// touch is foreseen, or asked for.
func (s *Store[T]) readForAccess(ctx context.Context, key string, r *readResult[T], asked bool) error {
	if s.readToucher != nil && !driver.MayUndo(ctx) {
		if done, err := s.readTouch(ctx, key, r, asked); done {
			return err
		}
	}
	d := s.reads
	if r.latest {
		d = s.latest
	}
	return s.read(ctx, d, key, r)
}

// read reads the live record under key from d, unless r has been loaded.
func (s *Store[T]) read(ctx context.Context, d driver.Driver[T], key string, r *readResult[T]) (err error) {
	r.since, r.began = s.memo.Clock(), s.hooks.reading()
	var began driver.Instant // unknown for a local store, where a read costs less than the clock
	if s.local == nil {
		began = driver.Floor(s.clock.Now())
		err = s.load(ctx, d, key, r)
	} else if r.value == nil {
		r.value, r.meta, _, err = s.local.Load(key)
	}
	return s.judge(ctx, key, r, began, err)
}

// readResult is the result of a read.
type readResult[T any] struct {
	value        *T // not to be written to; nil: there is no record
	meta         driver.Meta
	rules        *rules.Rules
	op           string
	since        uint64      // the memo's clock before it
	began        time.Time   // zero if there is no Observer.Read
	before       driver.Life // the life that a save continues; zero: only the record's own
	late         time.Time   // end of the wait for the touch, if that has begun
	needsNoTouch bool        // no touch is due
	exact        bool        // the touch is for this very version
	saved        bool        // the record was just saved, so it is not adopted
	latest       bool        // the read must not be stale
	urgent       bool        // the caller waits until the touch ends
}

// entry returns r as a caller's Entry.
func (r *readResult[T]) entry(err error) (Entry[T], error) {
	if err != nil {
		return Entry[T]{}, err
	}
	return Entry[T]{Value: *r.value, Meta: r.meta}, nil
}

// load reads the record under key from d.
func (s *Store[T]) load(ctx context.Context, d driver.Driver[T], key string, r *readResult[T]) error {
	e, err := d.Get(ctx, key)
	if r.value, r.meta = &e.Value, e.Meta; err != nil {
		r.value = nil
	}
	return err
}

// judge determines the outcome of a read of key that began at began, counts and remembers it.
//
// A record whose expiry passed during the read may have been touched meanwhile, and so may a
// record that a stale read shows dead. Those are read again.
func (s *Store[T]) judge(ctx context.Context, key string, r *readResult[T], began driver.Instant, err error) error {
	at, doubt := began, began
	if s.stale {
		at = began.Add(-staleness)
		doubt = at.Add(-s.opts.MaxSkew) // the unseen touch may be by a clock that is behind
	}
	if err = s.judgeLife(key, r, err); s.mayLive(r, doubt, err) {
		err = s.readAlive(ctx, key, r)
	}
	o, failed := ReadHit, error(nil)
	switch {
	case err == nil:
		_, now := s.clock.Bounds()
		s.touches.Seen(r.meta.CreatedAt, now)
		if !driver.MayUndo(ctx) {
			s.memo.Read(key, &r.meta, r.since, at, r.rules)
		}
		s.stats.Add(tally.Hits)
	case errors.Is(err, ErrNotFound):
		o = s.miss(key, r)
	case err == ErrForeign:
		o = ReadForeign
	default:
		o, failed = ReadFailed, err
	}
	s.hooks.read(ctx, r.op, r.began, o, failed)
	return err
}

// staleness is how old a read's answer may be on a driver.Latest.
const staleness = 10 * time.Second

// latestReads replaces the reads of a driver.Latest by those that are not stale.
type latestReads[T any] struct{ driver.Latest[T] }

func (l latestReads[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	return l.Latest.Latest(ctx, key)
}

// readAlive reads the latest state of key's record into r, and returns an error if it is dead or
// refused. One that died during the read may have been touched meanwhile, and is read again.
func (s *Store[T]) readAlive(ctx context.Context, key string, r *readResult[T]) error {
	for {
		began := driver.Floor(s.clock.Now())
		err := s.judgeLife(key, r, s.load(ctx, s.latest, key, r))
		if !s.mayLive(r, began, err) {
			return err
		}
	}
}

// mayLive reports whether the record that was read, and judged dead by err, was alive at doubt.
func (s *Store[T]) mayLive(r *readResult[T], doubt driver.Instant, err error) bool {
	return err == ErrNotFound && r.value != nil && r.rules.Alive(r.meta.Life, doubt)
}

// judgeLife returns an error if the record that was read is dead or refused. err is the read's.
func (s *Store[T]) judgeLife(key string, r *readResult[T], err error) error {
	if err != nil {
		return err
	}
	if r.rules, err = s.rulesOf(key, r.value); err != nil {
		return err
	}
	// The clock's bounds, which cost little, decide most reads.
	earliest, latest := s.clock.Bounds()
	alive := r.rules.AliveNear(r.meta.Life, latest)
	r.needsNoTouch = alive && r.rules.NeedsNoTouch(r.meta.Life, earliest, latest) && !s.touches.Lowers(key, r.since)
	switch {
	case r.needsNoTouch:
		return nil
	case !alive && !r.rules.Alive(r.meta.Life, driver.Floor(s.clock.Now())):
		return ErrNotFound
	case r.meta.CreatedAt == 0 && s.opts.Foreign == Reject && !r.saved:
		return ErrForeign
	}
	r.needsNoTouch = r.meta.CreatedAt == 0 && s.opts.Foreign == ReadOnly && !r.saved
	return nil
}

// miss counts a read that found no live record under key, and returns its outcome. It forgets the
// key. r is the dead record, if one was found.
func (s *Store[T]) miss(key string, r *readResult[T]) ReadOutcome {
	was := s.memo.Forget(key)
	var rules *rules.Rules
	if r.value != nil {
		was, rules = &r.meta, r.rules
	} else if was != nil && s.opts.PolicyOf == nil && !was.Alive(driver.Floor(s.clock.Now())) {
		rules, _ = s.rulesOf(key, nil) // the remembered record has died, and was not deleted
	}
	s.stats.Add(tally.Misses)
	switch {
	case rules == nil:
		return ReadAbsent
	case rules.DiedOfAge(was.Life):
		s.stats.Add(tally.DiedOfAge)
		return ReadDiedOfAge
	}
	s.stats.Add(tally.DiedIdle)
	return ReadDiedIdle
}
