package model

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// process is one of the processes that share the backend: it has a clock and policies, and a
// store that is closed and opened again now and then.
type process struct {
	w      *world
	id     int
	skew   time.Duration
	opts   slidingttl.Options[value]
	tables []table    // the first is there from the start
	swap   sync.Mutex // held while the store or its policy is exchanged
	i      *incarnation
	reads  map[string]map[driver.Meta]bool // what a read has shown it, or it wrote
}

func (p *process) clock(t time.Time) time.Time { return t.Add(p.skew) }

func (p *process) now() time.Time { return p.clock(time.Now()) }

// incarnation is a process from its store's New to its Close, and what was observed of it. The world's mutex guards all but s and the wrapped repository.
type incarnation struct {
	p *process
	s *slidingttl.Store[value]
	r *slidingttl.Wrapped[string, value, value]

	touching  map[string]int            // touches in flight
	busy      map[string]int            // calls of the driver in flight
	ended     map[string]time.Time      // the last of them
	met       map[string]driver.Instant // the created_at that a call found last
	saves     map[int]*op               // by the value's id
	saw       map[int]bool              // the values, by their ids, that a call read which counts as an access
	lowered   map[string]time.Time      // when the write was sent
	unsure    map[string]time.Time      // when one was sent that has lowered the expiry, or may
	refused   map[string]time.Time      // when it was known that one has not
	failed    map[string]time.Time      // the last one that the hook was called for
	gone      map[string]absence        // by the last call that found nothing, or deleted
	failures  int                       // touches that the hook was called for
	open      bool                      // the breaker
	shut      time.Time                 // when that closed last
	closing   time.Time
	closed    time.Time
	abandoned int
	unpaid    map[string]bool // keys with a duty that was given up
	queued    *op             // stands for the calls whose touches have waited
	duties    []duty
}

// open starts p's next incarnation.
func (p *process) open() error {
	w := p.w
	i := &incarnation{
		p: p, touching: map[string]int{}, busy: map[string]int{}, ended: map[string]time.Time{},
		met:   map[string]driver.Instant{},
		saves: map[int]*op{}, saw: map[int]bool{},
		lowered: map[string]time.Time{}, unsure: map[string]time.Time{}, refused: map[string]time.Time{}, failed: map[string]time.Time{},
		gone: map[string]absence{}, unpaid: map[string]bool{},
	}
	i.queued = &op{p: p, i: i, name: "queued touch", start: time.Now(), ctx: context.Background()}
	opts := p.opts
	opts.OnTouchError = func(_ context.Context, key string, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		i.failed[key] = time.Now()
		i.failures++
		w.note(key, "%d is told that a touch failed: %v", p.id, err)
	}
	opts.Observer = &slidingttl.Observer{Breaker: func(open bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		i.open, i.shut = open, time.Now()
		for _, key := range w.keys {
			w.note(key, "%d: the breaker is open: %v", p.id, open)
		}
	}}
	w.mu.Lock()
	rules := p.tables[len(p.tables)-1].of
	w.mu.Unlock()
	switch {
	case w.policyOf:
		opts.PolicyOf = func(v value) slidingttl.Policy { return rules[v.kind].Policy }
	case w.policyFor:
		opts.PolicyFor = func(key string) slidingttl.Policy { return rules[kindOf(key)].Policy }
	}
	var err error
	if i.s, err = slidingttl.New(w.dial(p, i), rules[0].Policy, &opts); err != nil {
		return err
	}
	if i.r, err = slidingttl.Wrap(rows{&conn{world: w, p: p, i: i}}, i.s, func(id string) string { return id }, nil); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.i = i
	w.opened = append(w.opened, i)
	return nil
}

// reopen starts p again, perhaps with other policies.
func (p *process) reopen(d *dice) {
	p.swap.Lock()
	defer p.swap.Unlock()
	if p.w.changing && d.oneIn(2) {
		p.turn(d)
	}
	if err := p.open(); err != nil {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.w.violated(12, p.w.keys[0], "New: %v", err)
	}
}

// change gives the running store another policy, where that is possible.
func (p *process) change(d *dice) {
	if p.w.policyOf || p.w.policyFor {
		return
	}
	p.swap.Lock()
	defer p.swap.Unlock()
	to := p.turn(d)
	if err := p.i.s.SetPolicy(to[0].Policy); err != nil {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.w.violated(12, p.w.keys[0], "SetPolicy: %v", err)
	}
}

// turn draws the policies that p has from now on.
func (p *process) turn(d *dice) [kinds]rule {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	to := table{from: time.Now(), of: w.rules(d)}
	p.tables = append(p.tables, to)
	for _, key := range w.keys {
		w.note(key, "%d goes by %+v", p.id, to.of)
	}
	return to.of
}

func (i *incarnation) read(key string, m driver.Meta) {
	if i.p.reads[key] == nil {
		i.p.reads[key] = make(map[driver.Meta]bool)
	}
	i.p.reads[key][m] = true
}

func (i *incarnation) hasRead(key string, m driver.Meta) bool { return i.p.reads[key][m] }

// landed logs a write that has landed.
func (i *incarnation) landed(key string, s state) {
	i.p.w.put(key, s)
	i.read(key, s.Meta)
	if !s.lowered.IsZero() {
		i.lowered[key] = s.lowered
	}
	i.p.w.note(key, "  %s: %v", s.by, &s)
}

// tighten records a write that is sent to lower an expiry, and how it ended. Until then, and if
// it may have landed, it counts as the one lowering that an eighth of the idle grace allows.
func (i *incarnation) tighten(key string, sent time.Time) (done func(err error)) {
	if sent.IsZero() {
		return func(error) {}
	}
	before, was := i.unsure[key]
	i.unsure[key] = sent
	return func(err error) {
		if err == nil || errors.Is(err, driver.ErrAmbiguous) {
			return
		}
		i.p.w.mu.Lock()
		defer i.p.w.mu.Unlock()
		i.refused[key] = time.Now()
		if i.unsure[key] != sent {
			return // another was sent since
		}
		if delete(i.unsure, key); was {
			i.unsure[key] = before
		}
	}
}

// touch counts a touch of key in flight.
func (i *incarnation) touch(o *op, key string) (done func()) {
	if o.name == "delete entry" {
		return func() {} // that is how it deletes
	}
	if i.touching[key]++; i.touching[key] > 1 {
		i.p.w.violated(9, key, "%d touches by process %d in flight at once", i.touching[key], i.p.id)
	}
	if !i.closed.IsZero() {
		i.p.w.violated(11, key, "process %d touches after Close returned", i.p.id)
	}
	return func() {
		i.p.w.mu.Lock()
		defer i.p.w.mu.Unlock()
		i.touching[key]--
	}
}

// close closes the store and checks what Close returns.
func (i *incarnation) close(ctx context.Context) {
	w := i.p.w
	w.mu.Lock()
	i.closing = time.Now()
	w.mu.Unlock()
	err := i.s.Close(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	i.closed = time.Now()
	for key, n := range i.touching {
		if n > 0 && ctx.Err() == nil { // else they end soon
			w.violated(11, key, "Close of process %d returns with %d touches in flight", i.p.id, n)
		}
	}
	var drain *slidingttl.DrainError
	switch {
	case errors.As(err, &drain):
		i.abandoned = drain.Abandoned + drain.Calls
		if ctx.Err() == nil && !i.open && !i.shut.After(i.closing) {
			w.violated(11, w.keys[0], "Close gives up although its context lives: %v", err)
		}
	case err != nil:
		w.violated(11, w.keys[0], "Close: %v", err)
	}
	for _, key := range w.keys {
		w.note(key, "%d has closed: %v", i.p.id, err)
	}
}

// pending reports whether touches that were due have not ended.
func (i *incarnation) pending() bool {
	st := i.s.Stats()
	return st.Due+st.Retried != st.Touched+st.Shared+st.TouchLost+st.Deferred+st.TouchFails+st.Shed
}

// audit checks the counters against each other once every call has returned.
func (i *incarnation) audit() {
	w, st := i.p.w, i.s.Stats()
	if i.pending() || st.TouchFails+st.Shed != uint64(i.failures) || st.Pending != 0 {
		w.violated(11, w.keys[0], "the counters of process %d do not add up: %+v, %d told to the hook", i.p.id, st, i.failures)
	}
	if len(i.unpaid) > i.abandoned {
		w.violated(11, w.keys[0], "Close of process %d said %d were given up, it was %d keys", i.p.id, i.abandoned, len(i.unpaid))
	}
}

// op is a call of a client.
type op struct {
	id      int
	p       *process
	i       *incarnation
	name    string
	key     string
	keys    []string // of a call for many
	start   time.Time
	end     time.Time
	ctx     context.Context
	value   value // what it writes
	foreign bool  // the record that it starts from has no created_at
	reads   int   // of a life in the store

	readFailed, touchFailed, writeFailed bool // a fault was injected, or the touch's caller was told of one
}

func (o *op) String() string { return fmt.Sprintf("%s %d of process %d", o.name, o.id, o.p.id) }

// looks reports whether the call must not write.
func (o *op) looks() bool { return o.name == "peek" || o.name == "peek multi" }

// unread reports whether the call may have learned nothing of its record's life. It then
// counts its touch as failed.
func (o *op) unread() bool { return o.readFailed || o.ctx.Err() != nil }

// failedAside reports whether a touch that the call waited for may have failed: the hook was
// called, or the touch will be tried again.
func (o *op) failedAside(key string) bool {
	return !o.i.failed[key].Before(o.start) || o.i.open || o.i.shut.After(o.start)
}

// fault notes what kind of call was failed.
func (o *op) fault(call string) {
	switch call {
	case "get", "latest", "read touch":
		o.readFailed = true
	case "touch":
		o.touchFailed = true
	default:
		o.writeFailed = true
	}
}

type opKey struct{}

// op is the call that ctx belongs to. A touch that has waited belongs to none.
func (c *conn) op(ctx context.Context) *op {
	if o, ok := ctx.Value(opKey{}).(*op); ok {
		return o
	}
	return c.i.queued
}
