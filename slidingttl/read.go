package slidingttl

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Get returns the value under key and touches the record if that is due.
//
// The value is returned even if the touch failed, was late, was cut short by ctx
// or found the record gone; see Options.TouchWait, Strict and OnTouchError.
// ErrNotFound: absent, or dead of idleness or age.
func (s *Store[T]) Get(ctx context.Context, key string) (T, error) {
	// What access below does for nearly every read of a local store, in few enough
	// instructions that the processor is on to the next read before this one's
	// record has come from memory: of a million keys that is a third of the time.
	if s.quick != nil && !s.gate.isClosed() {
		if v, m, err := s.quick.Load(key); err == nil {
			r := &s.policy.Load().rules
			_, latest := s.clock.Bounds()
			settled := m.ExpiresAt-latest >= r.near && r.settled(m.Life, latest)
			if (settled || r.settled(m.Life, driver.Ceil(s.clock.Now()))) && ctx.Err() == nil {
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
func (s *Store[T]) Entry(ctx context.Context, key string) (Entry[T], error) {
	var l look[T]
	err := s.access(ctx, opGet, key, &l)
	return l.entry(err)
}

// Peek returns the record under key and never touches it.
func (s *Store[T]) Peek(ctx context.Context, key string) (Entry[T], error) {
	if err := s.begin(ctx, opPeek, key); err != nil {
		return Entry[T]{}, err
	}
	defer s.gate.leave()
	var l look[T]
	err := s.read(ctx, opPeek, key, &l)
	return l.entry(err)
}

// access reads the record under key and has it touched if that is due.
func (s *Store[T]) access(ctx context.Context, op, key string, l *look[T]) error {
	if err := s.begin(ctx, op, key); err != nil {
		return err
	}
	defer s.gate.leave()
	if err := s.readToKeep(ctx, op, key, l, false); err != nil || l.settled {
		return err
	}
	return s.touchRead(ctx, op, key, l)
}

// look is what a read found and learned.
type look[T any] struct {
	value   *T // not to be written to
	meta    driver.Meta
	rules   rules
	op      string
	since   uint64    // the memo's clock before it
	began   time.Time // if somebody asks
	settled bool      // no touch is due
	late    bool      // the read has waited for its touch before it
	err     error     // of a read aside
}

// entry is what a caller gets of l.
func (l *look[T]) entry(err error) (Entry[T], error) {
	if err != nil {
		return Entry[T]{}, err
	}
	return Entry[T]{Value: *l.value, Meta: l.meta}, nil
}

// readToKeep reads the live record under key for an access, and touches it in the
// same wait where that is foreseen or asked for.
func (s *Store[T]) readToKeep(ctx context.Context, op, key string, l *look[T], asked bool) error {
	if s.foresees(key, asked) {
		if done, err := s.readTouch(ctx, op, key, l, asked); done {
			return wrap(ctx, op, err)
		}
	}
	return s.read(ctx, op, key, l)
}

// read reads the live record under key.
func (s *Store[T]) read(ctx context.Context, op, key string, l *look[T]) error {
	return s.readFrom(ctx, s.reads, op, key, l)
}

// readFrom is read, from d.
func (s *Store[T]) readFrom(ctx context.Context, d driver.Driver[T], op, key string, l *look[T]) error {
	l.op, l.since, l.began = op, s.memo.now(), s.touches.hooks.reading()
	var began driver.Instant // unknown for a local store, where a read costs less than the clock
	if s.local == nil {
		began = driver.Floor(s.clock.Now())
	}
	return wrap(ctx, op, s.settle(ctx, key, l, began, s.load(ctx, d, key, l)))
}

// load reads the record under key from d into l. Where there is none l.value is nil.
func (s *Store[T]) load(ctx context.Context, d driver.Driver[T], key string, l *look[T]) (err error) {
	if s.local != nil {
		l.value, l.meta, err = s.local.Load(key)
	} else {
		var e driver.Entry[T]
		e, err = d.Get(ctx, key)
		l.value, l.meta = &e.Value, e.Meta
	}
	if err != nil {
		l.value = nil
	}
	return err
}

// settle judges what a read of key that began at began has found or failed with,
// counts it, and remembers it.
//
// A record whose expiry passed while it was read may have been touched meanwhile,
// and so may one that a stale read shows dead: those are read again before they
// are said not to be there.
func (s *Store[T]) settle(ctx context.Context, key string, l *look[T], began driver.Instant, err error) error {
	doubt := began
	if s.stale {
		doubt = began.Add(-staleness - s.opts.MaxSkew) // the touch that is not seen may be by a clock behind
	}
	for {
		if err == nil {
			l.rules, err = s.rulesOf(key, l.value)
		}
		if err == nil {
			err = s.judge(l)
		}
		if err != ErrNotFound || l.value == nil || !l.rules.alive(l.meta.Life, doubt) {
			break
		}
		doubt = driver.Floor(s.clock.Now())
		err = s.load(ctx, s.fresh, key, l)
	}
	switch {
	case err == nil:
		s.memo.read(key, &l.meta, l.since)
		s.hit(ctx, l)
	case errors.Is(err, ErrNotFound):
		s.miss(ctx, key, l)
	case err == ErrForeign:
		s.touches.hooks.read(ctx, l.op, l.began, ReadForeign, nil)
	default:
		s.touches.hooks.read(ctx, l.op, l.began, ReadFailed, err)
	}
	return err
}

// hit counts a read that found a live record.
func (s *Store[T]) hit(ctx context.Context, l *look[T]) {
	s.stats.add(cHits)
	s.touches.hooks.read(ctx, l.op, l.began, ReadHit, nil)
}

// follow takes over what became of the record in a touch, if the value is known to be
// the one that was read.
func (l *look[T]) follow(o outcome) {
	if o.over == l.meta || o.meta.Version == l.meta.Version && o.meta.CreatedAt == l.meta.CreatedAt {
		l.meta = o.meta
	}
}

// staleness is how old an answer of a driver may be that is a driver.Latest.
const staleness = 10 * time.Second

// fresh makes the reads of a driver.Latest the ones that are not stale.
type fresh[T any] struct{ driver.Latest[T] }

func (f fresh[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	return f.Latest.Latest(ctx, key)
}

// judge says what is wrong with the record that was read: it is dead or refused.
func (s *Store[T]) judge(l *look[T]) error {
	// Most reads come out the same whenever within its bounds the time is.
	_, latest := s.clock.Bounds()
	alive := l.rules.alive(l.meta.Life, after(latest, l.rules.near))
	l.settled = alive && l.rules.settled(l.meta.Life, latest)
	switch {
	case l.settled:
		return nil
	case !alive && !l.rules.alive(l.meta.Life, driver.Floor(s.clock.Now())):
		return ErrNotFound
	case l.meta.CreatedAt == 0 && s.opts.Foreign == Reject:
		return ErrForeign
	}
	l.settled = l.meta.CreatedAt == 0 && s.opts.Foreign == ReadOnly
	return nil
}

// miss counts a read that found no live record under key, by what it died of, and
// forgets the key. l is what was found of it, if anything was.
func (s *Store[T]) miss(ctx context.Context, key string, l *look[T]) {
	o := s.cause(key, l)
	s.stats.add(cMisses)
	switch o {
	case ReadDiedIdle:
		s.stats.add(cDiedIdle)
	case ReadDiedOfAge:
		s.stats.add(cDiedOfAge)
	}
	s.touches.hooks.read(ctx, l.op, l.began, o, nil)
}

// cause is why there is no live record under key, which it forgets.
func (s *Store[T]) cause(key string, l *look[T]) ReadOutcome {
	was, known := &l.meta, s.memo.forget(key)
	now := driver.Floor(s.clock.Now())
	if l.value == nil {
		// Whether it died or was deleted can only be told by what was remembered.
		if was = known; was == nil || s.opts.PolicyOf != nil || was.Alive(now) {
			return ReadAbsent
		}
		l.rules, _ = s.rulesOf(key, nil)
	}
	return l.rules.cause(was.Life, now)
}
