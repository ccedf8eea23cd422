package explore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/touches"
)

// world is one run of a program.
type world struct {
	program
	mode    mode
	retains bool // the backend keeps the dead
	told    bool // keep a story of the run

	mu        sync.Mutex // guards the rest, runs and trips
	processes []*process
	runs      []*run
	truth     truth
	pending   []*trip
	locks     []*lock        // goroutines before a lock of the touches
	named     map[string]int // how many locks have had a name
	closings  []*closing
	closed    bool           // all stores are, for good
	end       chan struct{}  // closed when the run is over
	asking    atomic.Bool    // the test itself asks a store
	sends     map[string]int // touches sent by instant, process and key
	conflicts map[string]int // how many states there were at the last conflict, by the same
	taking    *trip          // takes effect now
	direct    bool           // trips take effect and are answered at once
	failing   bool           // touches of the other record fail
	faults    int            // that may still happen
	faulted   bool           // one has
	ids       int            // values written

	step    int
	actions []action    // by step
	began   []time.Time // by step: its first moment
	times   []time.Time // by step: its last moment
	moments []time.Time // at which something happened

	story    []string
	broken   []violation
	excepted int // violations that the documentation excepts
}

// process is one of the processes that share the backend.
type process struct {
	w        *world
	id       int
	skew     time.Duration
	store    *slidingttl.Store[value]
	wrapped  *slidingttl.Wrapped[string, value, value]
	policies []dated          // in order; the first from the start
	failed   []driver.Instant // the lives, by created_at, of which a touch failed; zero: unknown
	givenUp  int              // touches that failed with ErrClosed
	claimed  int              // touches that calls of Close say they gave up; two at once say the same ones
	most     int              // of these, most in one call
	together bool             // two calls were under way at once
	lowered  []time.Time      // when it brought the expiry down
	trips    int              // without an owner
	touching map[string]int   // touches in flight by key
	closed   int              // step in which Close returned; zero: not yet
	failures uint64           // touches that had failed when the program began
}

// dated is a policy and the step from which it applies.
type dated struct {
	from   int
	policy slidingttl.Policy
}

func (p *process) now() time.Time { return time.Now().Add(p.skew) }

func (p *process) setPolicy(to slidingttl.Policy) {
	to = p.w.mode.policy(to)
	p.w.mu.Lock()
	p.policies = append(p.policies, dated{p.w.step, to})
	p.w.mu.Unlock()
	must(p.store.SetPolicy(to))
}

func failures(st slidingttl.Stats) uint64 { return st.TouchFails + st.Shed + st.Deferred }

func ends(st slidingttl.Stats) uint64 {
	return st.Touched + st.Shared + st.TouchLost + st.Deferred + st.TouchFails + st.Shed
}

// newWorld returns the world in which the program is about to begin.
func newWorld(p program, faults int, told bool) *world {
	touches.Yield = nil // that of the world before
	w := &world{program: p, mode: modes[p.mode], retains: strings.Contains(p.driver, "retains"), told: told, faults: faults, direct: true, failing: true}
	w.named, w.sends, w.conflicts, w.end = make(map[string]int), make(map[string]int), make(map[string]int), make(chan struct{})
	w.truth.states = append(make([]state, 0, 8), state{})
	now := time.Now()
	w.began, w.times, w.moments, w.actions = []time.Time{now}, []time.Time{now}, []time.Time{now}, []action{{}}
	for id := range p.processes() {
		x := &process{w: w, id: id, touching: make(map[string]int)}
		if w.mode.skew != nil {
			x.skew = w.mode.skew[id]
		}
		policy := w.mode.policy(base)
		x.policies = append(x.policies, dated{0, policy})
		options := w.mode.options
		options.Now, options.Remember, options.OnTouchError = x.now, 256, x.onTouchError // fewer than by default, for speed
		var err error
		x.store, err = slidingttl.New(w.dial(x), policy, &options)
		must(err)
		x.wrapped, err = slidingttl.Wrap(repository{w.dial(x)}, x.store, func(id string) string { return id }, nil)
		must(err)
		w.processes = append(w.processes, x)
	}
	starts[p.start](w, w.processes[0].store, w.processes)
	if w.mode.broken {
		breakOpen(w.processes)
	}
	synctest.Wait()
	w.expire()
	w.truth.begin()
	w.direct, w.failing = false, false
	if strings.Contains(p.driver, "locks") {
		touches.Yield = w.yield
	}
	now = time.Now()
	w.began[0], w.times[0], w.moments[0] = now, now, now
	for _, x := range w.processes {
		x.failures, x.failed, x.givenUp = failures(x.stats()), nil, 0
	}
	for i, c := range p.calls {
		r := &run{w: w, index: i, call: c}
		if c.process != ofTime {
			r.p = w.processes[c.process]
		}
		w.runs = append(w.runs, r)
	}
	w.note("stored is %s", w.stored())
	return w
}

// refusal is the error of a touch of the other record.
func (w *world) refusal() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing {
		return errDown
	}
	return nil
}

func (w *world) newValue(from int) value {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	return value{w.ids, from}
}

// moment records that something happens now.
func (w *world) moment() {
	if now := time.Now(); !now.Equal(w.moments[len(w.moments)-1]) {
		w.moments = append(w.moments, now)
	}
}

func (w *world) note(format string, args ...any) {
	if w.told {
		w.story = append(w.story, fmt.Sprintf("%2d ", w.step)+fmt.Sprintf(format, args...))
	}
}

func (r *run) String() string {
	if r == nil {
		return "a call before"
	}
	return fmt.Sprintf("call %d (%s)", r.index, r.name)
}

// start begins a call, or lets time pass.
func (r *run) start() {
	r.w.mu.Lock()
	r.started, r.from, r.at = true, r.w.step, time.Now()
	if r.p == nil {
		r.w.mu.Unlock()
		r.pass()
		return
	}
	r.w.note("%v begins in process %d", r, r.process)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), runKey{}, r))
	r.cancel, r.active = cancel, r.at
	r.w.mu.Unlock()
	go func() {
		returned := false
		defer func() {
			r.w.mu.Lock()
			defer r.w.mu.Unlock()
			r.w.moment()
			if !returned {
				r.err, r.faulted = errExited, true
			}
			r.ended, r.to, r.done = true, r.w.step, time.Now()
			if r.closes() {
				r.p.closed = r.w.step
			}
			r.w.note("%v returns value %d, error %v", r, r.value.id, r.err)
		}()
		doing[r.name](ctx, r, r.p.store)
		returned = true
	}()
}

// pass lets time pass until the moment that the call names. The bubble's root goroutine sleeps.
func (r *run) pass() {
	r.w.mu.Lock()
	now := time.Now()
	to := passing[r.name](now, r.w.truth.last().Life)
	r.w.mu.Unlock()
	time.Sleep(max(to.Sub(now), time.Millisecond))
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.moment()
	r.w.expire()
	r.ended, r.to = true, r.w.step
	r.w.note("it is %+v; stored is %s", time.Since(r.w.times[0]), r.w.stored())
}

// rests reports whether every call has returned and no touch is to come.
func (w *world) rests() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.ContainsFunc(w.runs, func(r *run) bool { return !r.ended }) {
		return false
	}
	return !slices.ContainsFunc(w.processes, func(p *process) bool {
		st := p.stats()
		return st.Pending > 0 || st.Due+st.Retried != ends(st)
	})
}

// finish ends the run: it completes what is under way, and closes the stores.
func (w *world) finish() {
	w.tick(action{process: ofTime})
	for range 100 {
		w.mu.Lock()
		w.direct = true
		for _, l := range w.locks {
			close(l.pass)
		}
		released := len(w.locks)
		w.locks = nil
		pending := w.pending
		w.pending = nil
		for _, t := range pending {
			if t.left {
				continue
			}
			if !t.done {
				w.take(t, t.effect)
			}
			close(t.answer)
		}
		w.mu.Unlock()
		synctest.Wait()
		if released+len(pending) == 0 {
			break
		}
	}
	close(w.end)
	synctest.Wait()
	for _, p := range w.processes {
		ctx, cancel := context.WithTimeout(context.Background(), minute)
		if err := p.close(ctx); err != nil && !w.faulted && !w.mode.broken && !w.has("abort", "close-soon") && w.mode.hook == "" {
			w.violated("drain", "the last Close of process %d: %v", p.id, err)
		}
		cancel()
	}
	synctest.Wait()
	if strings.Contains(w.driver, "locks") {
		w.judgeGivenUp()
	}
	for _, r := range w.runs {
		if r.cancel != nil {
			r.cancel()
		}
	}
}

// tick begins a step.
func (w *world) tick(a action) {
	now := time.Now()
	w.times[w.step] = now
	w.step++
	w.actions = append(w.actions, a)
	w.began, w.times = append(w.began, now), append(w.times, now)
}
