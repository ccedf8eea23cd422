package slidingttl

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// outcome is what a shared touch came to.
type outcome struct {
	was  driver.Meta // what it was planned for
	over driver.Meta // what it was written over; zero: it was not
	meta driver.Meta // what is stored
	err  error
}

// share joins the touch of a's key that is under way, or starts one, and follows
// with another where that one does not serve a. When ctx or late ends the wait the
// rest goes on by itself.
func (t *toucher) share(ctx context.Context, a access, late <-chan time.Time) outcome {
	if !t.start() {
		t.fail(ctx, a.key, ErrClosed)
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
					t.stats.add(cShared)
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
		t.stats.add(cShared)
	default:
		t.wait(ctx, a)
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
	case o.err != nil || o.meta.CreatedAt != a.was.CreatedAt && a.was.CreatedAt != 0:
		return false // it was for an older record than the one that a read
	case a.kept(o.meta):
		return true
	}
	a.was, a.retold = o.meta, t.byValue
	return false
}

// detached runs the touch with the caller's values and without its cancellation.
func (t *toucher) detached(ctx context.Context, a access) outcome {
	// One that was under way may have landed since a read the record.
	if m, ok := t.memo.landedSince(a.key, a.since); ok && a.kept(m) && (m.CreatedAt == a.was.CreatedAt || a.was.CreatedAt == 0) {
		t.stats.add(cShared)
		return outcome{was: a.was, meta: m}
	}
	ctx, cancel := t.detach(ctx)
	defer cancel()
	return t.write(ctx, a)
}

// detach returns a context with ctx's values and a touch's own end.
func (t *toucher) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.timeout)
	undo := context.AfterFunc(t.stop, cancel)
	return ctx, func() { undo(); cancel() }
}
