package slidingttl

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// readTouch reads the record under key and has it touched in the same wait, if the
// driver can and a touch is foreseen, or asked for. False: it did neither. l is then
// as it was.
//
// The touch is one like any other to those who want the key touched meanwhile, and
// while it is under way no second one is sent: who comes then reads first.
func (s *Store[T]) readTouch(ctx context.Context, key string, l *look[T], asked bool) (done bool, err error) {
	began := s.clock.Now()
	r, known, ok := s.foreseen(key, driver.Ceil(began), asked)
	if !ok || !s.pairs.enter(key) {
		return false, nil
	}
	if !s.touches.start() {
		s.pairs.leave(key)
		return false, nil
	}
	l.since = s.memo.now()
	var e driver.Entry[T]
	var touched, led bool
	release := func() { s.pairs.leave(key); s.touches.running.Done() }
	shared := s.touches.group.DoChan(key, func() (any, error) {
		led = true
		defer release()
		ctx, cancel := s.touches.detach(ctx)
		defer cancel()
		var err error
		e, touched, err = s.both.ReadTouch(ctx, key, known, r.access(driver.Ceil(began)), driver.Floor(began))
		switch {
		case touched:
			s.stats.add(cDue)
			s.stats.add(cTouched)
			s.memo.touched(key, e.Meta)
		case errors.Is(err, ErrNotFound):
			return outcome{err: errLost}, nil
		}
		return outcome{meta: e.Meta, err: err}, nil
	})
	unless := func() { // another touch of key was under way
		if <-shared; !led {
			release()
		}
	}
	late, stop := s.touches.late()
	defer stop()
	select {
	case <-ctx.Done():
		go unless()
		return true, ctx.Err()
	case <-late:
		go unless()
		l.late = true
		return false, nil // a plain read may be faster than what goes on here
	case result := <-shared:
		o := result.Val.(outcome)
		switch {
		case !led:
			release()
			return false, nil
		case o.err == errLost:
			o.err = ErrNotFound
		case touched:
			l.value, l.meta, l.rules, l.settled = &e.Value, e.Meta, r, true
			s.stats.add(cHits)
			return true, nil
		default:
			l.value, l.meta = &e.Value, e.Meta
		}
		return true, s.settle(ctx, key, l, driver.Floor(began), o.err)
	}
}

// foreseen reports whether an access to key at at will find a touch due, or whether
// a touch was asked for, with the rules of the key and what is remembered of it.
func (s *Store[T]) foreseen(key string, at driver.Instant, asked bool) (rules, *driver.Meta, bool) {
	if s.opts.PolicyOf != nil || s.opts.Touches == Background {
		return rules{}, nil, false
	}
	r, err := s.rulesOf(key, nil)
	if err != nil {
		return rules{}, nil, false
	}
	known := s.memo.known(key)
	due := known != nil && known.CreatedAt != 0 && r.alive(known.Life, at) && r.due(known.Life, at)
	return r, known, asked || due || r.keep == r.stored && s.step == time.Millisecond
}

// access is an access at at under r, for a driver to judge.
func (r *rules) access(at driver.Instant) driver.Access {
	return driver.Access{At: at, Keep: r.keep, Stored: r.stored, Most: r.most, Promote: r.promote, Step: r.step}
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
