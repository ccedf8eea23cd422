package explore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// trip is a call of the driver. It takes effect, and is answered, when the schedule says.
type trip struct {
	p       *process
	owner   *run   // nil: no call is known to have made it
	name    string // its owner's, or its process's where it has none, and a number
	kind    string
	timed   bool // a touch sends it: only a touch has a timeout
	sent    int  // step
	key     string
	created driver.Instant // of the record that a touch is for; zero: unknown
	effect  func() error
	old     func() error // an effect that is stale; nil: there is none
	done    bool         // it has taken effect
	left    bool         // nobody waits for its answer
	failure error
	answer  chan struct{}
}

// writes reports whether the trip may change what is stored.
func (t *trip) writes() bool { return t.kind != "get" && t.kind != "latest" }

// touches reports whether the trip is a touch, of which a process makes one at a time.
func (t *trip) touches() bool {
	return t.kind == "readtouch" || t.kind == "touch" && (t.owner == nil || t.owner.name != "retire")
}

type runKey struct{}

// owner is the call that a trip with ctx is made for. A touch may lack its caller's
// values: it then belongs to the only call that the process has had, if there is one only.
func (p *process) owner(ctx context.Context) *run {
	if r, ok := ctx.Value(runKey{}).(*run); ok {
		return r
	}
	var owner *run
	for _, r := range p.w.runs {
		if r.p == p && r.started {
			if owner != nil {
				return nil
			}
			owner = r
		}
	}
	return owner
}

// roundTrip makes a trip that takes effect as effect does.
func roundTrip[R any](ctx context.Context, c *conn, kind string, effect func(*run) (R, error)) (R, error) {
	return roundTripOf(ctx, c, kind, key, 0, effect)
}

// roundTripOf is roundTrip for the record under k, which was created at created.
func roundTripOf[R any](ctx context.Context, c *conn, kind, k string, created driver.Instant, effect func(*run) (R, error)) (R, error) {
	w, p := c.w, c.p
	var result, none R
	w.mu.Lock()
	owner := p.owner(ctx)
	_, timed := ctx.Deadline()
	t := &trip{p: p, owner: owner, kind: kind, timed: timed, key: k, created: created, answer: make(chan struct{})}
	t.effect = func() (err error) { result, err = effect(owner); return err }
	if w.direct {
		defer w.mu.Unlock()
		err := t.effect()
		return result, err
	}
	if by, _ := ctx.Value(runKey{}).(*run); by != nil && by.left && by.name == "batch" && t.touches() {
		if by.sentLeft++; by.sentLeft > 1 {
			w.violated("left", "%v starts %d touches after its caller has left", by, by.sentLeft)
		}
	}
	if kind == "get" && w.isStale() {
		t.old = func() error {
			e, err := c.read(nil, w.earlier())
			if err == nil {
				result = any(e).(R)
			}
			return err
		}
	}
	w.send(t)
	w.mu.Unlock()

	var err error
	done := ctx.Done()
	if strings.Contains(w.driver, "deaf") {
		done = nil
	}
	select {
	case <-t.answer:
		w.mu.Lock()
		err = t.failure
	case <-done:
		w.mu.Lock()
		t.left = true
		if err = ctx.Err(); t.writes() {
			err = fmt.Errorf("%w: %w", driver.ErrAmbiguous, err)
		}
	}
	defer w.mu.Unlock()
	w.returned(t, err)
	if err != nil {
		return none, err
	}
	return result, nil
}

// send records a trip that begins.
func (w *world) send(t *trip) {
	w.moment()
	t.sent = w.step
	if t.owner == nil {
		t.name = "p" + strconv.Itoa(t.p.id) + "." + strconv.Itoa(t.p.trips)
		t.p.trips++
	} else {
		t.name = strconv.Itoa(t.owner.index) + "." + strconv.Itoa(t.owner.trips)
		t.owner.trips++
	}
	if t.writes() && t.p.closed > 0 {
		w.violated("drain", "process %d sends a %s after Close has returned", t.p.id, t.kind)
	}
	if t.touches() {
		if t.p.touching[t.key]++; t.p.touching[t.key] > 1 {
			w.violated("single", "process %d has %d touches in flight", t.p.id, t.p.touching[t.key])
		}
		w.sending(t.p, t.key)
	}
	w.pending = append(w.pending, t)
}

// take makes t take effect.
func (w *world) take(t *trip, effect func() error) {
	w.taking = t
	t.failure, t.done = effect(), true
	w.taking = nil
}

// returned records how a trip ended for its caller.
func (w *world) returned(t *trip, err error) {
	if t.touches() {
		t.p.touching[t.key]--
	}
	failed := t.left || err == errDown || err == errLost
	if failed {
		t.p.failed = append(t.p.failed, t.created)
	}
	if failed && t.timed { // it fails the calls that wait for the touch
		for _, r := range w.runs {
			waits := w.mode.options.Strict || r.name == "touch" || r.name == "save" || r.name == "flush"
			r.faulted = r.faulted || waits && r.p == t.p && r.started && !r.ended
		}
	}
	r := t.owner
	if r == nil {
		return
	}
	if !t.touches() {
		r.active = time.Now()
	}
	if failed {
		r.faulted = true
		r.unsure = r.unsure || t.writes() && !t.touches()
	}
	r.ownTouch = r.ownTouch || !r.ended && t.kind == "touch" && err == driver.ErrNotFound
}

// drop removes t from the trips that wait.
func (w *world) drop(t *trip) {
	i := slices.Index(w.pending, t)
	w.pending = slices.Delete(w.pending, i, i+1)
}
