package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// trip is a call of the driver. It takes effect, and is answered, when the schedule says.
type trip struct {
	p       *process
	owner   *run   // nil: no call is known to have made it
	name    string // its owner's, or its process's where it has none, and a number
	kind    string // the operation, or "save"
	timed   bool   // a touch sends it: only a touch has a timeout
	sent    int    // step
	key     string
	created driver.Instant // of the record that a touch is for; zero: unknown
	effect  func() error
	old     func() error // an effect that is stale; nil: there is none
	done    bool         // it has taken effect
	left    bool         // nobody waits for its answer
	sends   string       // what a touch counts as in the world's sends
	failure error
	answer  chan struct{}
}

// writes reports whether the trip may change what is stored.
func (t *trip) writes() bool { return t.kind != fakestore.Get && t.kind != fakestore.Latest }

// touches reports whether the trip is a touch, of which a process makes one at a time.
func (t *trip) touches() bool {
	return t.kind == fakestore.ReadTouch || t.kind == fakestore.Touch && (t.owner == nil || t.owner.name != "retire")
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

// roundTrip answers k by a trip that takes effect as effect does, on a record that was created at
// created.
func (c *conn) roundTrip(k *driverCall, created driver.Instant, effect func(*run, *driverCall, *state)) {
	w, p, sent := c.w, c.p, *k // a write that was left may still take effect
	w.mu.Lock()
	defer w.mu.Unlock()
	owner := p.owner(k.Ctx)
	_, timed := k.Ctx.Deadline()
	t := &trip{p: p, owner: owner, kind: k.Op, timed: timed, key: k.Key, created: created, answer: make(chan struct{})}
	t.effect = func() error { effect(owner, &sent, w.truth.last()); return sent.Err }
	if w.direct {
		k.Err = t.effect()
		k.Entry, k.Touched = sent.Entry, sent.Touched
		return
	}
	if by, _ := k.Ctx.Value(runKey{}).(*run); by != nil && by.left && by.name == "batch" && t.touches() {
		if by.sentLeft++; by.sentLeft > 1 {
			w.violated("left", "%v starts %d touches after its caller has left", by, by.sentLeft)
		}
	}
	if k.Op == fakestore.Get && w.isStale() {
		t.old = func() error { effect(nil, &sent, w.earlier()); return sent.Err }
	}
	w.send(t)
	done := k.Ctx.Done()
	if strings.Contains(w.driver, "deaf") {
		done = nil
	}
	w.mu.Unlock()
	select {
	case <-t.answer:
		w.mu.Lock()
		k.Err = t.failure
	case <-done:
		w.mu.Lock()
		t.left = true
		if k.Err = k.Ctx.Err(); t.writes() {
			k.Err = fmt.Errorf("%w: %w", driver.ErrAmbiguous, k.Err)
		}
	}
	w.returned(t, k.Err)
	k.Entry, k.Touched = sent.Entry, sent.Touched
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
	if t.writes() && t.p.closed > 0 && (t.owner == nil || t.owner.name != "poison") {
		w.violated("drain", "process %d sends a %s after Close has returned", t.p.id, t.kind)
	}
	if t.touches() {
		if t.p.touching[t.key]++; t.p.touching[t.key] > 1 {
			w.violated("single", "process %d has %d touches in flight", t.p.id, t.p.touching[t.key])
		}
		t.sends = w.sending(t.p, t.key)
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
		if now := len(w.truth.states); errors.As(err, new(*driver.ConflictError)) && w.conflicts[t.sends] != now {
			w.conflicts[t.sends] = now
			w.sends[t.sends]-- // another's write has cost it, which is no failure
		}
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
	r.ownTouch = r.ownTouch || !r.ended && t.kind == fakestore.Touch && err == driver.ErrNotFound
}

// drop removes t from the trips that wait.
func (w *world) drop(t *trip) {
	i := slices.Index(w.pending, t)
	w.pending = slices.Delete(w.pending, i, i+1)
}
