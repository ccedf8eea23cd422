package slidingttl_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// law judges a random history of one row: calls of one or two processes, whose answers are late, lost or errors.
//
//   - After a deletion by a process, it gives the next row no created_at before that, and adopts none that it has not
//     read or saved since. (What runs at once with the deletion may: see Wrap.)
//   - created_at stays, and an expiry moves forward only, but for Retire.
//   - A row that was read or saved has a life that lasts as long as that promised, once all touches are made.
//   - Each touch is counted once.
type law struct {
	t     *testing.T
	seed  uint64
	p     slidingttl.Policy
	bumps bool  // a touch changes the version
	marks bool  // a save by the repository does
	calm  bool  // answers are late, but nothing fails
	rare  int64 // how rare faults are

	mu     sync.Mutex // guards the rest
	r      *rand.Rand
	start  time.Time
	quiet  bool // no faults any more
	rows   []lawRow
	calls  []*lawCall
	values int
	last   driver.Version
	log    []string
}

// lawRow is what the store held from a moment on. Value 0: nothing.
type lawRow struct {
	driver.Entry[int]
	from    time.Time
	by      *lawCall // which wrote the value, or deleted; nil: another program
	retired bool
}

// lawCall is a call that a process made.
type lawCall struct {
	of         *lawProcess
	name       string
	value      int // which it read or wrote
	start, end time.Time
	err        error
	cut        bool // its context ended
	reads      int  // of the driver; none: the store remembered the row
	failed     bool // a touch failed meanwhile, or the read before it
}

// lawProcess is a process, its store and its clock.
type lawProcess struct {
	*law
	n      int
	s      *slidingttl.Store[int]
	w      *slidingttl.Wrapped[int, int, int]
	coarse time.Duration    // of its clock
	skews  [4]time.Duration // in each quarter of an hour
}

// at is what its clock shows at x.
func (p *lawProcess) at(x time.Time) time.Time {
	return x.Add(p.skews[int(x.Sub(p.start)/(15*time.Minute))%len(p.skews)]).Truncate(p.coarse)
}

// lowest is the lowest that the clock may have shown from a to b.
func (p *lawProcess) lowest(a, b time.Time) driver.Instant {
	low := min(instant(p.at(a)), instant(p.at(b)))
	for x := a.Truncate(15 * time.Minute); x.Before(b); x = x.Add(15 * time.Minute) {
		if x.After(a) {
			low = min(low, instant(p.at(x)))
		}
	}
	return low
}

func (l *law) dice(n int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Int64N(n)
}

func (l *law) note(format string, a ...any) {
	l.log = append(l.log, fmt.Sprintf("%14v ", time.Since(l.start))+fmt.Sprintf(format, a...))
}

func (l *law) broken(format string, a ...any) {
	if l.note(format, a...); !l.t.Failed() {
		l.t.Errorf("-law.first=%d -law.runs=1:\n%s", l.seed, strings.Join(l.log[max(0, len(l.log)-60):], "\n"))
	}
}

func (l *law) row() *lawRow { return &l.rows[len(l.rows)-1] }

func (l *law) put(value int, m driver.Meta, by *lawCall, what string) {
	if l.calm && value != l.row().Value {
		l.kept(time.Minute)
	}
	l.rows = append(l.rows, lawRow{Entry: driver.Entry[int]{Value: value, Meta: m}, from: time.Now(), by: by, retired: what == "retire" || l.row().retired && l.row().Value == value})
	l.note("  row %d %+v by %s", value, m.Life, what)
}

// save writes as a repository does that knows of no life.
func (l *law) save(value int, by *lawCall, what string) {
	var m driver.Meta
	if l.marks && value != 0 {
		l.last++
		m.Version = l.last
	}
	l.put(value, m, by, what)
}

// kept checks the row by the calls that have ended for that long.
func (l *law) kept(ago time.Duration) {
	row := l.row()
	for _, c := range l.calls {
		if row.Value == 0 || row.retired || c.value != row.Value || c.err != nil || c.end.IsZero() || time.Since(c.end) < ago || c.failed {
			continue
		}
		if c.reads == 0 && (row.by == nil || row.by.of != c.of) {
			continue // what others write past it, it need not know
		}
		due := c.of.lowest(c.start, c.end).Add(l.p.IdleGrace)
		if row.CreatedAt != 0 {
			due = min(due, row.CreatedAt.Add(l.p.MaxLifetime))
		}
		if dead := row.ExpiresAt != 0 && row.ExpiresAt <= instant(time.Now()); row.CreatedAt == 0 || row.ExpiresAt < due && (l.calm || !dead) {
			l.broken("BROKEN: process %d's %s at %v promised more", c.of.n, c.name, c.start.Sub(l.start))
		}
	}
}

// touched checks a touch by p that gives the row, which has no life, one that began at created.
func (p *lawProcess) touched(created driver.Instant) {
	var d, next *lawRow
	for i := 1; i < len(p.rows)-1; i++ {
		if p.rows[i].Value == 0 && p.rows[i+1].Value != 0 {
			d, next = &p.rows[i], &p.rows[i+1]
		}
	}
	if d == nil || p.row().Value == 0 || d.by == nil || d.by.of != p || d.by.err != nil || d.by.cut || d.by.end.IsZero() {
		return
	}
	if next.from.Before(d.by.end) || next.by != nil && next.by.start.Before(d.by.end) {
		return
	}
	seen := false
	for _, c := range p.calls {
		if c.of != p || c == d.by || c.name == "flush" || !c.end.IsZero() && c.end.Before(d.by.start) {
			continue
		}
		if seen = true; c.start.Before(d.by.end) {
			return // at once with the deletion
		}
	}
	for i := range p.rows {
		if r := &p.rows[i]; !r.from.Before(next.from) && r.CreatedAt == created {
			return // as another process has given it
		}
	}
	if low := p.lowest(d.from, time.Now()); created < low || !seen {
		p.broken("BROKEN: process %d gives created_at %v before the deletion; seen since: %t", p.n, low.Sub(created), seen)
	}
}

type lawKey struct{}

func callOf(ctx context.Context) *lawCall { c, _ := ctx.Value(lawKey{}).(*lawCall); return c }

// trip makes a call of the store, which f answers.
func (p *lawProcess) trip(ctx context.Context, what string, touch bool, f func() error) error {
	there, back := time.Duration(p.dice(30e6)), time.Duration(p.dice(30e6))
	fails, loses, hangs := p.dice(p.rare) == 0, p.dice(p.rare) == 0, touch && p.dice(2*p.rare) == 0
	if p.dice(8) == 0 {
		back += time.Duration(p.dice(3e9))
	}
	p.mu.Lock()
	if p.quiet || p.calm {
		fails, loses, hangs = false, false, false
	}
	p.mu.Unlock()
	if hangs {
		there = time.Minute
	}
	if err := sleep(ctx, there); err != nil || fails {
		return errors.Join(errDown, err, driver.ErrAmbiguous)
	}
	p.mu.Lock()
	err := f()
	p.note("  %d %s: %v", p.n, what, err)
	p.mu.Unlock()
	if late := sleep(ctx, back); late != nil || loses {
		return errors.Join(errDown, late, driver.ErrAmbiguous)
	}
	return err
}

func (p *lawProcess) answer(c *fakestore.Call[int]) {
	by := callOf(c.Ctx)
	if c.Reads() && by != nil {
		p.mu.Lock()
		by.reads++
		p.mu.Unlock()
	}
	sent := *c
	err := p.trip(c.Ctx, c.Op, c.Op == fakestore.Touch, func() error {
		row := p.row()
		found := &driver.Entry[int]{Value: row.Value, Meta: row.Meta}
		if row.Value == 0 {
			found = nil
		}
		is, writes := sent.Apply(found, p.last+1, fakestore.Rules{Bumps: p.bumps})
		switch {
		case !writes:
			return sent.Err
		case is == nil:
			p.put(0, driver.Meta{}, by, c.Op)
			return nil
		}
		what := fmt.Sprintf("%s of %d", c.Op, p.n)
		if c.Op == fakestore.Touch {
			if row.CreatedAt == 0 {
				p.touched(is.CreatedAt)
			}
			if by != nil && by.name == "retire" {
				what = by.name
			}
			by = row.by
		}
		alive := row.CreatedAt != 0 && row.Alive(c.Now) && row.CreatedAt.Add(p.p.MaxLifetime) > c.Now
		if alive && what != "retire" && (is.CreatedAt != row.CreatedAt || is.ExpiresAt < row.ExpiresAt) {
			p.broken("BROKEN: process %d writes %+v over %+v", p.n, is.Life, row.Life)
		}
		p.last = max(p.last, is.Version)
		p.put(is.Value, is.Meta, by, what)
		return nil
	})
	if c.Err = err; err == nil {
		c.Entry, c.Touched = sent.Entry, sent.Touched
	}
}

// lawRepo is the repository of a process.
type lawRepo struct{ *lawProcess }

func (p lawRepo) Get(ctx context.Context, _ int) (v int, err error) {
	err = p.trip(ctx, "row", false, func() error {
		if v = p.row().Value; v == 0 {
			return errNoProfile
		}
		return nil
	})
	return v, err
}

func (p lawRepo) Upsert(ctx context.Context, _, v int) error {
	return p.trip(ctx, "save", false, func() error { p.save(v, callOf(ctx), "save"); return nil })
}

var lawCalls = map[string]func(p *lawProcess, ctx context.Context, v int) (int, error){
	"find":   func(p *lawProcess, ctx context.Context, _ int) (int, error) { return p.w.Get(ctx, 1) },
	"save":   func(p *lawProcess, ctx context.Context, v int) (int, error) { return v, p.w.Upsert(ctx, 1, v) },
	"remove": func(p *lawProcess, ctx context.Context, _ int) (int, error) { return 0, p.w.Delete(ctx, 1) },
	"get":    func(p *lawProcess, ctx context.Context, _ int) (int, error) { return p.s.Get(ctx, "k") },
	"upsert": func(p *lawProcess, ctx context.Context, v int) (int, error) { return v, p.s.Upsert(ctx, "k", v) },
	"delete": func(p *lawProcess, ctx context.Context, _ int) (int, error) { return 0, p.s.Delete(ctx, "k") },
	"retire": func(p *lawProcess, ctx context.Context, _ int) (int, error) { return 0, p.s.Retire(ctx, "k") },
	"keep":   func(p *lawProcess, ctx context.Context, _ int) (int, error) { return 0, p.s.Keep(ctx, "k") },
	"flush":  func(p *lawProcess, ctx context.Context, _ int) (int, error) { return 0, p.s.Flush(ctx) },
	"update": func(p *lawProcess, ctx context.Context, v int) (int, error) {
		return p.s.Update(ctx, "k", func(int) (int, error) { return v, nil })
	},
	"delete entry": func(p *lawProcess, ctx context.Context, _ int) (int, error) {
		e, err := p.s.Peek(ctx, "k")
		return 0, errors.Join(err, p.s.DeleteEntry(ctx, "k", e))
	},
	"other saves": func(p *lawProcess, ctx context.Context, v int) (int, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.save(v, nil, "another program")
		return 0, nil
	},
	"other deletes": func(p *lawProcess, ctx context.Context, _ int) (int, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.save(0, nil, "another program")
		return 0, nil
	},
}

// run makes calls of menu, with pauses.
func (p *lawProcess) run(menu []string, pauses []time.Duration, cuts bool) {
	for range 16 {
		time.Sleep(time.Duration(p.dice(int64(pauses[p.dice(int64(len(pauses)))]))))
		c := &lawCall{of: p, name: menu[p.dice(int64(len(menu)))], start: time.Now(), cut: cuts && p.dice(8) == 0}
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), lawKey{}, c))
		if c.cut {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(p.dice(200e6)))
		}
		p.mu.Lock()
		p.values++
		v := p.values
		if !strings.HasPrefix(c.name, "other") {
			p.calls = append(p.calls, c)
		}
		p.note("%d %s %d", p.n, c.name, v)
		p.mu.Unlock()
		v, err := lawCalls[c.name](p, ctx, v)
		cancel()
		p.mu.Lock()
		c.end, c.err, c.value = time.Now(), err, v
		p.note("%d %s is %d, %v", p.n, c.name, v, err)
		p.mu.Unlock()
	}
}

// judgeLaw plays the history of seed.
func judgeLaw(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	l := &law{t: t, seed: seed, r: r, start: time.Now(), rows: make([]lawRow, 1), bumps: r.IntN(3) == 0, marks: r.IntN(3) == 0, calm: r.IntN(2) == 0, rare: 2 + r.Int64N(12)}
	l.p = slidingttl.Policy{IdleGrace: 10 * time.Minute, MaxLifetime: time.Hour, Slack: []time.Duration{0, 4 * time.Minute}[r.IntN(2)]}
	pauses := [][]time.Duration{{1e7, 3e8, 3e9}, {1e7, 3e8, 3e9, 3e10}, {1e8, 3e8, 3e9, 3e11, 5e11}}[r.IntN(3)]
	menu, all := []string{"find", "save", "remove"}, []string{"get", "upsert", "delete", "retire", "keep", "flush", "update", "delete entry", "other saves", "other deletes", "find", "save"}
	for range r.IntN(8) {
		menu = append(menu, all[r.IntN(len(all))])
	}
	cuts := r.IntN(2) == 0
	var processes, runs []*lawProcess
	for n := range 1 + r.IntN(2) {
		p := &lawProcess{law: l, n: n, coarse: []time.Duration{1, time.Second}[r.IntN(2)]}
		if r.IntN(2) == 0 {
			for i := range p.skews {
				p.skews[i] = time.Duration(r.Int64N(40e9)) - 20*time.Second
			}
		}
		d := &fakestore.Driver[int]{Step: []time.Duration{time.Millisecond, time.Second}[r.IntN(2)], Handle: p.answer, Has: []any{(*driver.Remover)(nil)}}
		p.s = open[int](t, d, l.p, &slidingttl.Options[int]{
			Now: func() time.Time { return p.at(time.Now()) }, Touches: slidingttl.TouchMode(r.IntN(2)),
			OnTouchError: func(context.Context, string, error) {
				l.mu.Lock()
				defer l.mu.Unlock()
				for _, c := range l.calls { // a find whose life cannot be read is not tried again
					c.failed = c.failed || c.of == p && c.name == "find" && time.Since(c.end) <= time.Millisecond || c.end.IsZero() && c.of == p
				}
			},
		})
		w, err := slidingttl.Wrap(lawRepo{p}, p.s, func(int) string { return "k" }, nil)
		must(t, err)
		p.w = w
		processes = append(processes, p)
		for range 1 + r.IntN(2) {
			runs = append(runs, p)
		}
	}
	var callers sync.WaitGroup
	for _, p := range runs {
		callers.Go(func() { p.run(menu, pauses, cuts) })
	}
	callers.Wait()
	l.mu.Lock()
	l.quiet = true
	l.mu.Unlock()
	time.Sleep(2 * time.Minute)
	l.mu.Lock()
	l.kept(time.Minute)
	l.mu.Unlock()
	for _, p := range processes {
		must(t, p.s.Close(t.Context()))
		if st := p.s.Stats(); st.Touched+st.Shared+st.TouchLost+st.Deferred+st.TouchFails+st.Shed != st.Due+st.Retried {
			l.broken("BROKEN: touches of process %d: %+v", p.n, st)
		}
	}
}

var (
	lawFirst = flag.Uint64("law.first", 1, "the first seed of TestLawOfDeletions")
	lawRuns  = flag.Uint64("law.runs", 500, "how many histories it judges")
)

// TestLawOfDeletions judges random histories of one row.
func TestLawOfDeletions(t *testing.T) {
	t.Parallel()
	for seed := *lawFirst; seed < *lawFirst+*lawRuns && !t.Failed(); seed++ {
		bubble(t, func(t *testing.T) { judgeLaw(t, seed) })
	}
}
