package slidingttl

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/internal/touches"
)

// readTouch reads the record under key and has it touched in the same wait. Done is false, and
// it does neither, if no touch is foreseen nor asked for, or one of the key is under way.
func (s *Store[T]) readTouch(ctx context.Context, key string, r *readResult[T], asked bool) (done bool, err error) {
	began := s.clock.Now()
	rules, known, dueFrom, ok := s.foresee(key, driver.Ceil(began), asked)
	if !ok {
		return false, nil
	}
	since := s.memo.Clock()
	var e driver.Entry[T]
	var touched bool
	touchErr := touches.ErrExited // unless it returns
	both := s.touches.ReadTouch(ctx, key, func(ctx context.Context) (o touches.Outcome, ok bool) {
		if s.memo.Known(key) != known { // a touch has ended since: nothing is left to do
			touchErr = touches.ErrReplaced
			return o, false
		}
		touchErr = s.recovered(func() (err error) { // decoding may panic
			e, touched, err = s.readToucher.ReadTouch(s.planned(ctx), key, known, rules.Access(driver.Ceil(began), dueFrom), driver.Floor(began))
			return err
		})
		if touchErr != nil || !touched {
			return o, false
		}
		if known != nil && known.CreatedAt == e.CreatedAt { // else another record has replaced it
			o.Was = *known
		}
		s.memo.Touched(key, o.Was, e.Meta, since, driver.Floor(began), o.Was.Version == e.Version) // else it may be of another value
		o.Meta, o.Cap = e.Meta, rules.Cap(e.CreatedAt)
		return o, true
	})
	if both == nil {
		return false, nil
	}
	r.since, r.began = since, s.hooks.reading()
	late := r.late
	if late.IsZero() {
		late = s.touches.Late()
	}
	tooLate, stop := touches.At(late)
	defer stop()
	select {
	case <-ctx.Done():
		s.hooks.read(ctx, r.op, r.began, ReadFailed, ctx.Err())
		return true, ctx.Err()
	case <-tooLate:
		r.late = late
		return false, nil // a read alone may be faster
	case <-both:
	}
	if touchErr != nil && !errors.Is(touchErr, ErrNotFound) {
		r.late = late     // which still bounds the wait of this read
		return false, nil // a read must not fail because a touch did
	}
	if touchErr == nil {
		r.value, r.meta = &e.Value, e.Meta
	} else {
		r.value = nil // what a local store loaded before
	}
	err = s.judge(ctx, key, r, driver.Floor(began), touchErr)
	r.needsNoTouch = r.needsNoTouch || touched
	return true, err
}

// foresee reports, in ok, whether an access to key at at will find a touch due. It returns the
// key's rules, its remembered record, and the instant from which a touch is due. In Background
// mode and with a budget, touches are separate requests.
func (s *Store[T]) foresee(key string, at driver.Instant, asked bool) (r *rules.Rules, known *driver.Meta, dueFrom driver.Instant, ok bool) {
	if s.opts.PolicyOf != nil || s.opts.Touches == Background || s.opts.Budget > 0 {
		return nil, nil, at, false
	}
	r, err := s.rulesOf(key, nil)
	if err != nil {
		return nil, nil, at, false
	}
	dueFrom = at
	due := false
	if known = s.memo.Known(key); known != nil && known.CreatedAt != 0 && r.Alive(known.Life, at) {
		dueFrom = s.touches.DueFrom(r, key, known.Life, at)
		due = r.Due(known.Life, dueFrom)
	}
	exact := r.Policy.Slack == 0 && !r.Policy.Promote && s.step == time.Millisecond
	return r, known, dueFrom, asked || due || exact
}
