package touches

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

// touch is a touch of one life of a key. Accesses share it until it runs.
type touch struct {
	Access
	of        *slot
	state     state
	ctx       context.Context                            // has the values of the caller for whom it began at once
	readTouch func(context.Context) (o Outcome, ok bool) // a read and touch in one
	done      chan struct{}                              // closed when it has ended
	outcome   Outcome                                    // valid once done is closed
	number    uint64                                     // in the order in which touches came
	came      time.Time                                  // time of its last access
	by        driver.Instant                             // when it is late even if its record lives
	started   time.Time                                  // when it began to run
	began     time.Time                                  // zero if Ended need not know
	fails     int                                        // failures in a row
	failed    time.Time                                  // when it failed last
	wakes     time.Duration                              // end of its rest, by Touches.restClock
	places    [3]int                                     // indexes in the heaps
	recent    *list.Element                              // its place in Touches.recent
	landings  int                                        // pressure.landings when it began
	readFirst bool                                       // Was may be stale: read again before the touch
	waited    bool                                       // it has been in the queue
	most      time.Duration                              // how long it may run
	try       bool                                       // it began by Touches.tryWait
	near      bool                                       // it was the one nearest to death, and is watched
	probe     bool                                       // it tests a failing store for Close or Flush
	late      bool                                       // it has run longer than reads wait
	wakesAll  bool                                       // its landing ends all rests
	orphan    *Deletion                                  // of its record, which the next one looks like, while it ran
	urgent    int                                        // callers that wait for it until it ends
	valued    bool                                       // it is for a read, which has the value
	unawaited bool                                       // a read that it was for has returned its value before the touch has ended
	deleted   bool                                       // this store has deleted its record before that died
}

// state is where a touch is in its life.
type state int

const (
	waiting state = iota // until the running touch of its key ends
	queued               // until its turn, in the heap ready
	resting              // after a failure, in the heap resting
	rested               // until its turn among those that failed, in the heap rested
	passed               // its record has died, or will before it lands, and all others go first, in the heap passed
	running              // one touch of a key at a time
	ended
)

// slot is a key with touches that have not ended.
type slot struct {
	key     string
	running *touch
	pending []*touch // those that do not run: at most one for each life
}

// mostLives bounds the pending touches of a key for which no caller waits to the end. Of the lives of more records
// all but the last few are over.
const mostLives = 8

// add adds a waiting touch for a to its key's slot.
func (t *Touches) add(a *Access) *touch {
	s := t.keys[a.Key]
	if s == nil {
		s = &slot{key: strings.Clone(a.Key)} // a.Key may be part of a long string
		t.keys[s.key] = s
	} else if i := slices.IndexFunc(s.pending, func(p *touch) bool { return p.urgent == 0 }); i >= 0 && len(s.pending) >= mostLives {
		t.end(s.pending[i], Outcome{Err: ErrReplaced, result: Lost})
	}
	t.pending++
	t.number++
	n := &touch{Access: *a, of: s, ctx: context.Background(), done: make(chan struct{}), number: t.number, came: time.Now()}
	if n.Key, n.by = s.key, driver.MaxInstant; t.budget != nil {
		n.by = n.promised(n.At)
	}
	s.pending = append(s.pending, n)
	return n
}

// join makes the pending touch of a's life serve a too, or adds one. waits reports whether the
// caller waits for it. A caller that has left starts no touch.
func (t *Touches) join(ctx context.Context, a *Access, late time.Time, urgent bool) (n *touch, waits bool) {
	held := ctx.Err() != nil
	if urgent {
		t.budget.overdraw()
	} else if !held {
		held = t.pressure.any() || t.budget != nil && (t.Background || t.ready.Len() > 0 || !t.budget.take())
	}
	isLate := !late.IsZero() && !time.Now().Before(late)
	queue := held || !urgent && (t.Background || isLate)
	if d := t.deletedSince(a); d != nil {
		a.disown(d)
	}
	var busy *touch
	if s := t.keys[a.Key]; s != nil {
		busy = s.running
		for _, p := range s.pending {
			if sameLife(p.Was, a.Was) {
				n = p
			}
		}
	}
	if n != nil {
		a.Key = n.Key // the caller's may be part of a long string
		t.count(ctx, a, Outcome{result: Shared}, time.Time{})
		n.merge(*a)
		t.reorder(n)
		if n.state == queued {
			t.recent.MoveToFront(n.recent)
		}
		queue = queue || !urgent && n.fails > 0
	} else {
		n = t.add(a)
		if queue && !held && !isLate && t.farthest.Len() >= t.Queue {
			t.Tally.Add(tally.QueueFull)
			queue = false // so that no other touch is shed
		}
		if queue {
			t.enqueue(n, queued)
		}
	}
	if urgent && !held {
		n.urgent++
	}
	if !queue {
		t.unqueue(n)
		waits = urgent || busy == nil || !busy.late
	}
	n.valued, n.unawaited = n.valued || !urgent || t.Strict, n.unawaited || !waits && a.alive()
	n.deleted = n.deleted || t.deletion(a).kills(a)
	if n.state == waiting && busy == nil {
		n.ctx = context.WithoutCancel(ctx)
		t.start(n)
	}
	t.dispatch()
	return n, waits
}

// Carried returns the function to ask, after a read that begins now, for the life that is to be put back to the record m
// that was read, by a touch or a save which had not ended when Carried was called, or has not yet; zero: none.
func (t *Touches) Carried(key string) func(m driver.Meta) driver.Life {
	t.lock()
	defer t.unlock()
	touches, saves := t.of(key), slices.Clone(t.carries)
	return func(m driver.Meta) (l driver.Life) {
		t.lock()
		defer t.unlock()
		for _, n := range append(touches, t.of(key)...) {
			if n.readTouch == nil && n.orphan == nil && n.Was == m && n.Before.CreatedAt != 0 {
				l = n.Before
			}
		}
		for _, c := range append(saves, t.carries...) {
			if c.key == key && !c.deleted && !c.over && l.CreatedAt == 0 {
				l = c.life
			}
		}
		return l
	}
}

// of returns the touches of key that have not ended.
func (t *Touches) of(key string) []*touch {
	s := t.keys[key]
	if s == nil {
		return nil
	}
	if s.running == nil {
		return slices.Clone(s.pending)
	}
	return append(slices.Clone(s.pending), s.running)
}

// start begins the pending touch n.
func (t *Touches) start(n *touch) {
	t.leave(n)
	n.state, n.of.running, n.started = running, n, time.Now()
	n.landings, n.probe = t.pressure.landings, t.pressure.Failing && t.inHurry()
	if n.most = t.Timeout; n.try || t.pressure.Failing {
		n.most = min(n.most, mostTry)
	}
	t.limits.add(n, 1)
	go t.run(n)
}

// leave removes n from those that are pending.
func (t *Touches) leave(n *touch) {
	t.unqueue(n)
	n.of.pending = slices.DeleteFunc(n.of.pending, func(p *touch) bool { return p == n })
	t.pending--
}

// ErrExited says that a caller's function ended the goroutine, by runtime.Goexit.
var ErrExited = errors.New("a caller's function ended the goroutine")

func (t *Touches) run(n *touch) {
	deepen(0)
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	defer context.AfterFunc(t.stop, cancel)()
	if t.Wait > 0 {
		defer time.AfterFunc(t.Wait, func() { t.wasLate(n) }).Stop()
	}
	n.began = t.sent()
	o := Outcome{result: none}
	if n.readTouch == nil {
		o = Outcome{Was: n.Was, Err: ErrExited, result: Failed}
	}
	defer func() { // also if a caller's function calls runtime.Goexit
		t.lock()
		t.landed(n, o)
		t.unlock()
	}()
	if n.readTouch == nil {
		if m := t.Memo.landedSince(&n.Access); m.serves(&n.Access) && !n.unlike() {
			o = m
		} else {
			o = t.write(ctx, n.most, &n.Access, n.readFirst)
		}
		return
	}
	ctx, end := within(ctx, n.most)
	defer end()
	if both, ok := n.readTouch(ctx); ok {
		o, n.Was = both, both.Was
		o.tried = true
		t.Tally.Add(tally.Due)
	}
}

func (t *Touches) wasLate(n *touch) {
	t.lock()
	if n.state == running {
		t.limits.wasLate(n)
		if was := t.pressure.Late; t.pressure.wasLate() && !was {
			t.limits.slowStart()
		}
		t.dispatch()
	}
	t.unlock()
}

// landed ends the running touch n. The touches of its key that o serves end with it, and the next
// one begins. What failed rests and is tried again.
func (t *Touches) landed(n *touch, o Outcome) {
	if t.gaveUp && n.readTouch == nil { // Close has said so
		o = Outcome{Err: ErrClosed, result: Failed, tried: o.tried}
		if o.tried {
			o.Err = errGivenUp
		}
	}
	if n.near {
		t.pressure.nearEnded(!o.failed())
	}
	if o.failed() && !t.Strict && !errors.Is(o.Err, errUnended) {
		if !n.try {
			t.limits.grow(-1)
		}
		t.pressure.failed(n.landings)
	} else if !o.tried {
		t.pressure.tried = time.Time{} // it says nothing about the store
		if n.try {
			t.pressure.another = !t.pressure.another // nor that the next one of its kind would
		}
	} else if !t.Strict {
		recovered := t.pressure.landed(n.late, min(time.Since(n.started), t.Timeout))
		if recovered {
			t.pressure.wakes = wakesAfter
		}
		if n.wakesAll || recovered && n.fails > 0 {
			t.pressure.back, t.pressure.wakes = t.pressure.landings, 0
			t.wakeAll()
		} else if t.pressure.wakes > 0 {
			t.wakeOne()
		}
		if n.try {
			t.pressure.tried = time.Time{} // the next one begins at once
		}
		if t.limits.grow(1); !t.pressure.Late {
			t.limits.grow(mostInFlight)
		}
	}
	refused := t.pressure.Failing && n.probe && o.failed()
	giveUp := t.Strict || t.halted || t.closing && (t.pressure.Failing || n.fails > 0)
	s := n.of
	// Nor has anybody else touched it, as far as can be read.
	dead := o.Meta.ExpiresAt != 0 && o.Meta.ExpiresAt.Sub(t.now()) < -t.Timeout
	if o.failed() && n.orphan != nil && n.orphan.ends(&n.Access) {
		o.Err, o.result = ErrGone, Lost
	}
	o.again = o.failed() && !giveUp && !dead
	shared := o
	shared.result = Shared
	var again *touch
	if o.again {
		t.Tally.Add(tally.Retried)
	}
	if o.again && !t.leaves(n) {
		again = t.add(&n.Access)
		again.unawaited, again.deleted = n.unawaited || n.alive(), n.deleted
		again.fails, again.landings, again.waited, again.readFirst, again.by = n.fails+1, n.landings, n.waited, true, n.by
		if n.landings < t.pressure.back {
			again.fails = 1 // the store has recovered since
		}
	}
	t.end(n, o)
	if t.halted {
		return
	}
	for _, p := range slices.Clone(s.pending) {
		switch {
		case p == again || n.orphan != nil || n.readTouch != nil && p.Was.CreatedAt == 0: // p may be of the next record
		case again != nil && sameLife(p.Was, again.Was):
			again.merge(p.Access)
			t.end(p, shared)
		case o.Err == ErrReplaced && n.Exact && !p.Exact: // p's record lives on, as another's or adopted
		case o.failed() && dead && p.dies() > t.now(), o.Err == nil && p.unlike():
			p.readFirst = true // another process has touched it, or it was saved since
		case o.serves(&p.Access):
			t.end(p, shared)
		case o.Err != nil || o.result == none: // this says nothing of p's record
		case o.Was == p.Was || o.Replaced == p.Was:
			// What a conflict handed back nobody has read, and p may not lower it.
			p.Was, p.readFirst = o.Meta, t.ByValue || o.result != Written && o.Meta != p.Was
			t.reorder(p)
		default:
			p.readFirst = true // its access may have read a later expiry than this touch wrote
		}
	}
	if again != nil {
		t.rest(again)
	}
	if i := slices.IndexFunc(s.pending, func(p *touch) bool { return p.state == waiting }); i >= 0 {
		t.start(s.pending[i])
	}
	if refused {
		t.refuse(o.Err)
	}
	t.dispatch()
}

// end ends n, whatever its state.
func (t *Touches) end(n *touch, o Outcome) {
	if o.lost() && (n.unawaited || n.valued && !n.Exact && o.Err == ErrReplaced) && !n.deleted && !n.Was.Alive(t.now()) {
		o.result = Shed // it died by the expiry that was read, and readers have its value
	}
	switch {
	case n.state == running:
		n.of.running = nil
		t.limits.add(n, -1)
	case !t.halted: // else it has left already
		t.leave(n)
	}
	if !t.halted && n.of.running == nil && len(n.of.pending) == 0 {
		delete(t.keys, n.Key)
	}
	n.state, n.outcome = ended, o
	if o.result != none {
		t.count(n.ctx, &n.Access, o, n.began)
	}
	broke := o.Broke()
	if broke && !o.again && !n.deleted {
		t.broke(&n.Access)
	}
	close(n.done)                           // the caller finds it counted
	goesOn := o.again && o.result == Shared // as part of the one that has run
	t.flushed(func(f *flush) bool { return n.number <= f.last }, broke && !goesOn, o.Err)
}

// deepen grows the goroutine's stack once, to the size that a driver's call needs. Otherwise the
// stack grows several times deep in that call and all frames are copied each time: a fifth of the
// processor time of a due read over Redis.
//
//go:noinline
func deepen(at int) byte {
	var frame [12 << 10]byte
	return frame[at]
}
