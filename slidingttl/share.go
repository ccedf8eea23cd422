package slidingttl

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// outcome is what a shared touch came to.
type outcome struct {
	was  driver.Meta    // what it was planned for
	over driver.Meta    // what it was written over; zero: it was not
	meta driver.Meta    // what is stored
	cap  driver.Instant // by the rules it is then under
	err  error

	tried bool // the store was asked for it
}

// failure is o's error if it says that the store did not take the touch.
func (o outcome) failure() error {
	if broke(o.err) && !errors.Is(o.err, ErrInvalid) && !errors.Is(o.err, ErrClosed) {
		return o.err
	}
	return nil
}

// verdict is what o says of the store.
func (o outcome) verdict() error {
	if err := o.failure(); err != nil || o.tried {
		return err
	}
	return errUntried
}

// share joins the touch of a's key that is under way, or starts one, and follows
// with another where that one does not serve a. When ctx or late ends the wait the
// rest goes on by itself.
func (t *toucher) share(ctx context.Context, a access, late <-chan struct{}) outcome {
	if !t.start() {
		t.fail(ctx, &a, ErrClosed)
		return outcome{meta: a.was, err: ErrClosed}
	}
	for {
		led := false
		shared := t.group.DoChan(a.key, func() (any, error) {
			led = true
			return t.detached(ctx, a), nil
		})
		var why error
		select {
		case r := <-shared:
			o := r.Val.(outcome)
			if led || t.serves(&a, o) {
				if !led {
					t.joined(ctx, a, o)
				}
				t.running.Done()
				return o
			}
			continue
		case <-ctx.Done():
			why = ctx.Err()
		case <-late:
			why = errLate
		}
		go t.follow(context.WithoutCancel(ctx), a, shared, &led)
		return outcome{meta: a.was, err: why}
	}
}

// follow sees a touch through whose caller does not wait any longer.
func (t *toucher) follow(ctx context.Context, a access, shared <-chan singleflight.Result, led *bool) {
	defer t.running.Done()
	o := (<-shared).Val.(outcome)
	switch {
	case *led:
	case t.serves(&a, o):
		t.joined(ctx, a, o)
	default:
		t.share(ctx, a, nil)
	}
}

// joined counts an access that another's touch served. Where that failed and is to be
// tried again, it is so for this one's promise as well.
func (t *toucher) joined(ctx context.Context, a access, o outcome) {
	if o.failure() == nil || !t.drain.breaker.open() || t.drain.isClosing() || !t.push(ctx, a, true) {
		t.ended(ctx, &a, TouchShared, nil)
	}
}

// serves reports whether what another's touch came to serves a as well. If not, a
// is brought up to what that touch found.
func (t *toucher) serves(a *access, o outcome) bool {
	switch {
	case o.err != nil && o.err != errLost:
		return true
	case o.was == a.was && o.err != nil:
		return true // it knew what a knows
	case o.err != nil, a.was.CreatedAt != 0 && o.meta.CreatedAt != a.was.CreatedAt:
		return false // it was for another record than the one that a read
	case o.was != a.was && o.over != a.was:
		a.retold = a.was.CreatedAt != 0 && !a.lowers()
		return false // it may have landed before the expiry moved to where a found it
	case a.kept(o.meta):
		return true
	}
	a.was, a.retold = o.meta, t.byValue
	return false
}

// detached runs the touch with the caller's values and without its cancellation.
func (t *toucher) detached(ctx context.Context, a access) outcome {
	// One that was under way may have landed since a read the record.
	over, m, landed := t.memo.landedSince(a.key, a.since)
	switch landed = landed && !a.lowers() && a.kept(m) && m.CreatedAt == a.was.CreatedAt; {
	case landed && over != a.was:
		a.retold = true // or before another brought the expiry to where a found it
	case landed:
		t.ended(ctx, &a, TouchShared, nil)
		return outcome{was: a.was, meta: m, cap: a.rules.limit(m.CreatedAt)}
	}
	ctx, cancel := t.detach(ctx)
	defer cancel()
	tell := a.tell
	if tell == nil {
		tell, _ = t.drain.breaker.allow()
	}
	if t.patience > 0 {
		defer time.AfterFunc(t.patience, func() { tell(errLate) }).Stop()
	}
	a.sent = t.hooks.touching()
	o := t.write(ctx, &a)
	tell(o.verdict())
	if o.failure() == nil || !t.later(ctx, a) {
		t.account(ctx, &a, o)
	}
	return o
}

// detach returns a context with ctx's values and a touch's own end, for a goroutine that
// has just begun.
func (t *toucher) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	deepen(0)
	return context.WithTimeout(carried{t.stop, ctx}, t.timeout)
}

// carried ends when its Context does, and has the values of another.
type carried struct {
	context.Context
	values context.Context
}

func (c carried) Value(key any) any {
	if v := c.Context.Value(key); v != nil { // by one that package context has, it knows an end of its own
		return v
	}
	return c.values.Value(key)
}

// deepen grows the stack of the goroutine once, to what a driver's call takes. Otherwise
// it grows in the depth of that call, several times, and each time all its frames have to
// be moved: a fifth of the processor time of a due read over Redis.
//
//go:noinline
func deepen(at int) byte {
	var frame [12 << 10]byte
	return frame[at]
}
