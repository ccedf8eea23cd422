package slidingttl

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// readTouch reads the record under key and has it touched in the same wait, if a touch
// is foreseen, or asked for. False: it did neither.
//
// The touch is one like any other to those who want the key touched meanwhile, and
// while it is under way no second one is sent: who comes then reads first.
func (s *Store[T]) readTouch(ctx context.Context, op, key string, l *look[T], asked bool) (done bool, err error) {
	if !s.pairs.enter(key) {
		return false, nil
	}
	// The pair before this one may have landed since, and what it left be remembered.
	began := s.clock.Now()
	r, known, by, ok := s.foreseen(key, driver.Ceil(began), asked)
	if !ok || !s.touches.start() {
		s.pairs.leave(key)
		return false, nil
	}
	since := s.memo.now()
	l.op, l.since, l.began = op, since, s.touches.hooks.reading()
	sent := s.touches.hooks.touching()
	var e driver.Entry[T]
	var touched, led bool
	release := func() { s.pairs.leave(key); s.touches.running.Done() }
	shared := s.touches.group.DoChan(key, func() (any, error) {
		led = true
		defer release()
		ctx, cancel := s.touches.detach(ctx)
		defer cancel()
		var err error
		e, touched, err = s.both.ReadTouch(ctx, key, known, r.access(driver.Ceil(began), by), driver.Floor(began))
		if !touched { // who waits for the touch of key has to see to it himself
			return outcome{err: errLost}, err
		}
		s.stats.add(cDue)
		a := access{key: key, sent: sent}
		if known != nil {
			a.was = *known
		}
		s.touches.ended(ctx, &a, TouchWritten, nil)
		s.memo.touched(key, a.was, e.Meta, since)
		return outcome{was: a.was, meta: e.Meta, cap: r.limit(e.CreatedAt)}, nil
	})
	unless := func() { // another touch of key was under way
		if <-shared; !led {
			release()
		}
	}
	late, stop := s.touches.late()
	defer stop()
	var plain <-chan *look[T]
	for {
		select {
		case <-ctx.Done():
			go unless()
			return true, ctx.Err()
		case <-late:
			late, plain = nil, s.loadAside(ctx, key) // which may be faster than what goes on here
		case p := <-plain:
			go unless()
			l.late, l.value, l.meta = true, p.value, p.meta
			return true, s.settle(ctx, key, l, driver.Floor(began), p.err)
		case result := <-shared:
			switch {
			case !led:
				release()
				return false, nil
			case touched:
				l.value, l.meta, l.rules, l.settled = &e.Value, e.Meta, r, true
				s.hit(ctx, l)
				return true, nil
			case result.Err == nil:
				l.value, l.meta = &e.Value, e.Meta
			case !errors.Is(result.Err, ErrNotFound):
				return false, nil // a read is not to fail because a touch did
			}
			return true, s.settle(ctx, key, l, driver.Floor(began), result.Err)
		}
	}
}

// loadAside reads the record under key while something else is waited for.
func (s *Store[T]) loadAside(ctx context.Context, key string) <-chan *look[T] {
	if !s.touches.start() {
		return nil
	}
	found := make(chan *look[T], 1)
	go func() {
		defer s.touches.running.Done()
		var l look[T]
		l.err = s.load(ctx, s.reads, key, &l)
		found <- &l
	}()
	return found
}

// foresees reports whether an access to key will find a touch due, or one is asked for,
// and the driver can read and touch in one.
func (s *Store[T]) foresees(key string, asked bool) bool {
	if s.both == nil {
		return false
	}
	_, _, _, ok := s.foreseen(key, driver.Ceil(s.clock.Now()), asked)
	return ok
}

// foreseen reports whether an access to key at at will find a touch due, or whether
// a touch was asked for, with the rules of the key, what is remembered of it, and from
// when on it counts whether it is due. With a budget, and while the breaker is open,
// touches go by themselves.
func (s *Store[T]) foreseen(key string, at driver.Instant, asked bool) (r rules, known *driver.Meta, by driver.Instant, ok bool) {
	if s.opts.PolicyOf != nil || s.opts.Touches == Background || s.opts.Budget > 0 {
		return r, nil, at, false
	}
	r, err := s.rulesOf(key, nil)
	if err != nil {
		return r, nil, at, false
	}
	by = at
	due := false
	if known = s.memo.known(key); known != nil && known.CreatedAt != 0 && r.alive(known.Life, at) {
		by = s.by(&r, key, known.Life, at)
		due = r.due(known.Life, by)
	}
	ok = asked || due || r.keep == r.stored && s.step == time.Millisecond
	return r, known, by, ok && !s.touches.drain.breaker.open()
}

// access is an access at at under r, due from by on, for a driver to judge.
func (r *rules) access(at, by driver.Instant) driver.Access {
	return driver.Access{At: at, Keep: after(r.keep, by-at), Stored: r.stored, Most: r.most, Promote: r.promote, Step: r.step}
}

// pairs are the keys whose read and touch are under way in one. Its zero value is
// ready for use.
type pairs struct {
	mu   sync.Mutex // guards keys
	keys map[string]struct{}
}

// enter adds key, unless it is there.
func (p *pairs) enter(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.keys[key]; ok {
		return false
	}
	if p.keys == nil {
		p.keys = make(map[string]struct{})
	}
	p.keys[key] = struct{}{}
	return true
}

func (p *pairs) leave(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, key)
}
