package explore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// running is the world of the run under way, for when it ends in a deadlock.
var running *world

// lock is a goroutine that is about to lock the touches of a store.
type lock struct {
	name string
	pass chan struct{}
}

// yield waits until the schedule has the goroutine go on to its lock.
func (w *world) yield() {
	if w.asking.Load() {
		return
	}
	w.mu.Lock()
	if w.direct {
		if w.closed {
			w.violated("drain", "%s runs after the last Close", caller())
		}
		w.mu.Unlock()
		return
	}
	w.moment()
	at := caller()
	l := &lock{name: fmt.Sprintf("%s.%d", at, w.named[at]), pass: make(chan struct{})}
	w.named[at]++
	w.locks = append(w.locks, l)
	w.mu.Unlock()
	<-l.pass
}

// caller is the function that locks the touches.
func caller() string {
	var pcs [8]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if name := f.Function[strings.LastIndexByte(f.Function, ')')+1:]; name != ".lock" {
			return strings.TrimPrefix(name, ".")
		}
		if !more {
			return "lock"
		}
	}
}

// pass lets the goroutine of this name lock.
func (w *world) pass(name string) {
	i := slices.IndexFunc(w.locks, func(l *lock) bool { return l.name == name })
	w.note("  %s locks", name)
	close(w.locks[i].pass)
	for _, r := range w.runs {
		r.passed = time.Now()
	}
	w.locks = slices.Delete(w.locks, i, i+1)
}

// closing is a call of Close.
type closing struct {
	p        *process
	ctx      context.Context
	returned bool
	checked  bool
}

// soon is how long the contexts of some calls of Close last.
const soon = 200 * time.Millisecond

func (r *run) closes() bool { return r.name == "close" || r.name == "abort" || r.name == "close-soon" }

// close closes the process's store.
func (p *process) close(ctx context.Context) error {
	c := &closing{p: p, ctx: ctx}
	p.w.mu.Lock()
	p.together = p.together || slices.ContainsFunc(p.w.closings, func(c *closing) bool { return c.p == p && !c.returned })
	p.w.closings = append(p.w.closings, c)
	p.w.mu.Unlock()
	err := p.store.Close(ctx)
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if drain, ok := errors.AsType[*slidingttl.DrainError](err); ok {
		p.claimed += drain.Abandoned
		p.most = max(p.most, drain.Abandoned)
	}
	c.returned = true
	p.w.note("Close of process %d returns %v", p.id, err)
	return err
}

// stats are the store's, asked by the test itself.
func (p *process) stats() slidingttl.Stats {
	p.w.asking.Store(true)
	defer p.w.asking.Store(false)
	return p.store.Stats()
}

// onTouchError is the hook of all stores.
func (p *process) onTouchError(_ context.Context, _ string, err error) {
	w := p.w
	w.mu.Lock()
	if errors.Is(err, slidingttl.ErrClosed) {
		p.givenUp++
		p.failed = append(p.failed, 0)
	}
	direct := w.direct
	r := &run{w: w, index: 100 + len(w.processes) + w.named["hook"], call: call{name: "get", process: p.id}, p: p, started: true, from: w.step, at: time.Now()}
	w.named["hook"]++
	w.note("OnTouchError of process %d: %v", p.id, err)
	w.mu.Unlock()
	if direct {
		return
	}
	switch w.mode.hook {
	case "get":
		_, _ = p.store.Get(context.WithValue(context.Background(), runKey{}, r), key)
	case "close":
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		_ = p.close(ctx)
	case "hang":
		<-w.end
	}
}

// check judges what stands when every goroutine waits for the schedule.
func (w *world) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.locks) > 0 {
		return
	}
	for _, c := range w.closings {
		switch {
		case c.checked:
		case c.returned:
			c.checked = true
			if st := c.p.stats(); st.Pending != 0 {
				w.violated("drain", "%d touches of process %d wait after its Close", st.Pending, c.p.id)
			}
		case c.ctx.Err() != nil:
			c.checked = true
			w.violated("prompt", "the context of a Close of process %d has ended, and it does not return", c.p.id)
		}
	}
	for _, r := range w.runs {
		switch r.name {
		case "get", "entry", "getmulti", "keep", "find", "batch":
			if r.started && !r.ended && !r.waited && w.mode.hook == "" && !w.mode.options.Strict && min(time.Since(r.active), time.Since(r.passed)) > touchWait &&
				!slices.ContainsFunc(w.pending, func(t *trip) bool { return t.owner == r && !t.touches() }) {
				r.waited = true
				w.violated("waits", "%v waits for its touch since %v", r, time.Since(r.active))
			}
		}
	}
}

// touchWait is the default of TouchWait, which all programs have.
const touchWait = 100 * time.Millisecond

// sending counts a touch that is sent, and returns what it counts as.
func (w *world) sending(p *process, k string) (id string) {
	if w.direct {
		return ""
	}
	// One for each access, once more for each Flush and Close, and what a rest allows. One that another's
	// write made a conflict does not count.
	most := 2
	for _, r := range w.runs {
		if r.started && r.p == p {
			most++
		}
	}
	id = fmt.Sprint(time.Since(w.times[0]), " ", p.id, " ", k)
	if w.sends[id]++; w.sends[id] == most+1 {
		w.violated("rests", "process %d sends %d touches of %s at one instant", p.id, most+1, k)
	}
	return id
}

// judgeGivenUp compares what calls of Close said with what OnTouchError was told.
func (w *world) judgeGivenUp() {
	time.Sleep(minute) // calls whose hook hung end
	synctest.Wait()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	time.Sleep(minute) // of the timers that Close has left, none is for longer
	synctest.Wait()
	for _, p := range w.processes {
		if p.givenUp > p.claimed || p.givenUp < p.most || p.givenUp != p.claimed && !p.together {
			w.violated("given up", "calls of Close of process %d say that %d touches were given up, and %d were", p.id, p.claimed, p.givenUp)
		}
	}
}

// excused reports whether a touch of the life that began at created has failed in p.
func (p *process) excused(created driver.Instant) bool {
	return slices.Contains(p.failed, created) || slices.Contains(p.failed, 0)
}
