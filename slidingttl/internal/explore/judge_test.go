package explore

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/touches"
)

// judge checks what the calls returned, and what they left stored, against the contract.
func (w *world) judge() {
	for _, r := range w.runs {
		switch {
		case r.p == nil, !r.started && w.mode.hook == "hang": // the call that it follows waits for a hook
		case !r.ended:
			w.violated("ends", "%v does not return", r)
		default:
			w.judgeAnswer(r)
			w.judgeClosed(r)
			w.judgeDuty(r)
		}
	}
	for _, p := range w.processes {
		if st := p.stats(); st.Due+st.Retried != ends(st) || st.Pending != 0 {
			w.violated("counted", "process %d: %+v", p.id, st)
		}
	}
}

// moved is the shortest interval of steps that r can occupy without a visible difference:
// it begins as late, and ends as early, as its neighbours allow.
func (w *world) moved(r *run) (from, to int) {
	from, to = r.from, r.to
	if from == to {
		return from, to
	}
	for from < to && independent(w.actions[r.from], w.actions[from+1]) {
		from++
	}
	for to--; to > from && independent(w.actions[r.to], w.actions[to]); {
		to--
	}
	return from, max(from, to)
}

// reads reports whether the call returns a value that it has read through the store.
func (r *run) reads() bool {
	switch r.name {
	case "get", "entry", "peek", "getmulti", "touchentry":
		return true
	}
	return false
}

func (w *world) judgeAnswer(r *run) {
	switch from, to := w.moved(r); {
	case errors.Is(r.err, slidingttl.ErrClosed):
		return // see judgeClosed
	case errors.Is(r.err, slidingttl.ErrAmbiguous) && r.unsure:
		return
	case errors.Is(r.err, touches.ErrExited) && w.has("poison", "exiting"):
		return
	case errors.Is(r.err, slidingttl.ErrNotFound):
		if !w.gone(r, from, to) {
			w.violated("readable", "%v returns not found for a record that is alive throughout", r)
		}
		w.judgeRefusal(r)
	case errors.Is(r.err, slidingttl.ErrExists):
		if !w.alive(r, from, to, nil) {
			w.violated("alive", "%v returns exists for a record that is dead throughout", r)
		}
		w.judgeRefusal(r)
	case errors.Is(r.err, slidingttl.ErrConflict) && r.name == "deleteentry":
		if n := 0; w.sometime(w.stale(from), to, func(*state, time.Time, time.Time) bool { n++; return n > 1 }) {
			w.judgeRefusal(r)
			return
		}
		w.violated("fails", "%v returns a conflict, and there was none", r)
	case r.err != nil:
		passes := r.reads() || r.name == "keep" || r.name == "find"
		if r.name == "bad" || r.name == "flush" && (w.has("bad") || len(r.p.failed) > 0) {
			return
		}
		strict := w.mode.options.Strict // what fails a touch, or lets it time out, fails who shares it
		if r.faulted || w.faulted && (!passes || strict) || strict && w.has("timeout") && errors.Is(r.err, context.DeadlineExceeded) || errors.Is(r.err, context.Canceled) && w.faulted {
			return
		}
		w.violated("fails", "%v fails: %v", r, r.err)
	default:
		w.judgeSuccess(r, from, to)
	}
}

// judgeRefusal checks a call whose error says that it has done nothing.
func (w *world) judgeRefusal(r *run) {
	if r.unsure && r.name != "save" && r.name != "delete" && r.name != "remove" {
		w.violated("told", "%v returns %v, and may have written", r, r.err)
	}
}

func (w *world) judgeSuccess(r *run, from, to int) {
	if r.reads() {
		if !w.alive(r, from, to, func(s *state) bool { return s.value == r.value }) {
			w.violated("alive", "%v answers value %d, which was not stored and alive", r, r.value.id)
		}
		if r.meta != (driver.Meta{}) && !w.sometime(-1, w.step, func(s *state, _, _ time.Time) bool {
			return s.present && s.value == r.value && s.Meta == r.meta
		}) {
			w.violated("entry", "%v answers value %d with a life or version that it never had: %+v", r, r.value.id, r.meta)
		}
		w.judgeRetired(r)
		if r.ownTouch && !r.left && r.name != "touchentry" && r.done.Sub(r.active) < touchWait && !w.gaveUp(r.p) && w.mode.options.Touches == slidingttl.Wait {
			w.violated("gone", "%v answers value %d", r, r.value.id)
		}
	}
	switch r.name {
	case "find": // its life is read after it, or remembered
		if !w.sometime(w.stale(from), to, func(s *state, _, _ time.Time) bool { return s.present && s.value == r.value }) {
			w.violated("alive", "%v answers value %d, which was not stored", r, r.value.id)
		}
		if !r.faulted {
			w.judgeVouching(r)
		}
	case "touch":
		if !w.alive(r, from, to, nil) {
			w.violated("vouches", "%v succeeds for a record that is gone", r)
		}
		w.judgeUntil(r, from, to)
	case "keep":
		if !r.faulted && !w.alive(r, from, to, nil) {
			w.judgeVouching(r)
		}
	case "insert", "upsert", "update", "save", "upsertmulti", "exiting":
		if !w.sometime(r.from, r.to, func(s *state, _, _ time.Time) bool { return s.present && s.value == r.wrote }) {
			w.violated("stored", "%v succeeds without having stored its value", r)
		}
	case "delete", "remove", "deleteentry":
		if r.deleted == 0 {
			w.violated("stored", "%v succeeds without having deleted", r)
		}
	case "retire":
		if !w.gone(r, from, to) {
			w.violated("retired", "%v succeeds, and the record is alive throughout", r)
		}
	case "close":
		if r.drain != nil && !w.faulted && !w.mode.broken && !w.has("abort", "close-soon") && w.mode.hook == "" {
			w.violated("drain", "%v: %v", r, r.drain)
		}
	}
}

// gaveUp reports whether a Close of p gave up touches, whatever then became of them.
func (w *world) gaveUp(p *process) bool {
	return slices.ContainsFunc(w.runs, func(c *run) bool { return c.p == p && c.closes() && c.drain != nil })
}

// judgeRetired checks that r did not find a life that had been retired before r began.
func (w *world) judgeRetired(r *run) {
	for _, other := range w.runs {
		if other.name != "retire" || other.err != nil || !other.ended || other.to >= r.from || w.isStale() {
			continue
		}
		if !w.sometime(other.to, r.to, func(s *state, _, _ time.Time) bool {
			return s.present && s.value == r.value && (s.CreatedAt != other.retired || s.value != other.value)
		}) {
			w.violated("revived", "%v answers value %d, which %v has retired", r, r.value.id, other)
		}
	}
}

// alive reports whether at some moment of steps from..to a record was alive for r's
// process, and ok holds for it.
func (w *world) alive(r *run, from, to int, ok func(*state) bool) bool {
	return w.sometime(w.stale(from), to, func(s *state, first, _ time.Time) bool {
		if first.Before(r.at) {
			first = r.at
		}
		return s.present && (ok == nil || ok(s)) && r.p.ever(r.from, r.to, func(rule slidingttl.Policy) bool { return !dead(rule, s.Life, r.p.clock(first)) })
	})
}

// gone reports whether at some moment of steps from..to there was no live record for r's
// process.
func (w *world) gone(r *run, from, to int) bool {
	none := func(s *state, _, last time.Time) bool {
		return !s.present || r.p.ever(r.from, r.to, func(rule slidingttl.Policy) bool { return dead(rule, s.Life, r.p.clock(last)) })
	}
	// A stale read may miss a record that is new.
	return w.sometime(from, to, none) || w.sometime(w.stale(from), from, func(s *state, _, last time.Time) bool {
		now := w.at(from)
		return none(s, last, last) && (!s.present || s.CreatedAt != now.CreatedAt || s.value != now.value)
	})
}

// at is what was stored in a step.
func (w *world) at(step int) (found *state) {
	w.during(step, step, func(s *state, _, _ time.Time) bool { found = s; return true })
	return found
}

// stale is the first step whose state a read that begins in step from may show.
func (w *world) stale(from int) int {
	if !w.isStale() || from < 0 {
		return from
	}
	since := w.began[from].Add(-staleness)
	for from > 0 && !w.times[from-1].Before(since) {
		from--
	}
	if s := &w.truth.states[0]; from == 0 && s.from < 0 && !w.truth.states[1].at.Before(since) {
		return -1
	}
	return from
}

// judgeUntil checks the expiry that a Touch returned. While policies differ, the tighter one
// may have won.
func (w *world) judgeUntil(r *run, from, to int) {
	for _, p := range w.processes {
		if len(p.policies) > 1 || w.start == "long" || w.start == "lowered" {
			return
		}
	}
	until, at := driver.Ceil(r.until), driver.Ceil(r.at.Add(r.p.skew))
	if !w.sometime(w.stale(from), to, func(s *state, _, _ time.Time) bool {
		return s.present && s.CreatedAt != 0 && r.p.ever(r.from, r.to, func(rule slidingttl.Policy) bool {
			return until >= deadline(rule, s.CreatedAt, at) && until <= limit(rule, s.CreatedAt)
		})
	}) {
		w.violated("kept", "%v promises %s, before the deadline or past the cap", r, w.since(until))
	}
}

// judgeVouching checks a call that relied on its process's memo: the process must not have
// deleted the record, or found it gone, before the call began.
func (w *world) judgeVouching(r *run) {
	since := -1
	for _, other := range w.runs {
		switch {
		case other.p != r.p || !other.ended || other.to >= r.from:
		case other.deleted > 0 && other.err == nil:
			since = max(since, other.deleted)
		case errors.Is(other.err, slidingttl.ErrNotFound) && other.foundGone > 0:
			since = max(since, other.foundGone)
		}
	}
	if since < 0 {
		return
	}
	if !w.sometime(w.stale(since), r.to, func(s *state, first, _ time.Time) bool {
		if first.Before(r.at) {
			first = r.at // what is remembered is judged by now
		}
		return s.present && r.p.ever(r.from, r.to, func(rule slidingttl.Policy) bool { return !dead(rule, s.Life, r.p.clock(first)) })
	}) {
		w.violated("vouches", "%v succeeds for a record that process %d knows to be gone since step %d", r, r.process, since)
	}
}

// judgeClosed checks a call against the Close of its process.
func (w *world) judgeClosed(r *run) {
	closing, givenUp := math.MaxInt, false
	if w.mode.hook == "close" { // a hook closes, at any time, and gives up soon
		closing, givenUp = 0, true
	}
	for _, c := range w.runs {
		if c.p == r.p && c.started && c.closes() {
			closing = min(closing, c.from)
			givenUp = givenUp || c.faulted || c.name != "close"
		}
	}
	switch r.name {
	case "close", "abort", "close-soon", "tighter", "base", "looser", "remove", "poison":
		return
	}
	switch closed := errors.Is(r.err, slidingttl.ErrClosed); {
	case closed && closing > r.to:
		w.violated("closed", "%v: %v", r, r.err)
	case closed && r.saved > 0 && !givenUp:
		w.violated("whole", "%v is closed between its write and its touch", r)
	case !closed && r.p.closed > 0 && r.from > r.p.closed && r.name != "find" && r.name != "save":
		w.violated("closed", "%v goes through after Close", r)
	}
}

// judgeDuty checks that the record that r found lives until its deadline, or that r's process
// has counted a failure.
func (w *world) judgeDuty(r *run) {
	switch r.name {
	case "get", "entry", "getmulti", "touch", "keep", "upsert", "update", "insert", "save", "find":
	default:
		return
	}
	if r.err != nil || r.p.closed > 0 && r.to > r.p.closed || w.has("poison") { // no policy says what is owed
		return
	}
	from, _ := w.moved(r)
	if r.trips == 0 || r.name == "find" && r.trips == 1 {
		from = -1 // by what it remembered
	}
	created, last, void := w.generation(r, w.stale(from))
	if void || last == nil || failures(r.p.stats()) > r.p.failures && (r.left || r.p.excused(created)) {
		return
	}
	// While policies differ the tighter may win.
	at, owed := driver.Ceil(r.at.Add(r.p.skew)), driver.MaxInstant
	for _, p := range w.processes {
		for _, d := range p.policies {
			owed = min(owed, deadline(d.policy, created, at))
		}
	}
	if w.has("save") {
		// It overwrites a touch that lands after its read, and restores what its own clock says.
		least, most := w.processes[0].skew, w.processes[0].skew
		for _, p := range w.processes {
			least, most = min(least, p.skew), max(most, p.skew)
		}
		owed = owed.Add(least - most)
	}
	for _, save := range w.runs {
		if last.CreatedAt == 0 && last.ExpiresAt == 0 && save.name == "save" && save.err != nil {
			return // which says that the next access mends it
		}
	}
	if created == 0 || last.CreatedAt == 0 || last.ExpiresAt != 0 && last.ExpiresAt < owed {
		w.violated("kept", "%v owes a life to %s; stored is %s", r, w.since(owed), w.stored())
	}
}

// generation is the created_at of the record that r found in step from or after, and
// the last state of it. The duty is void if the record was deleted, died or was replaced.
func (w *world) generation(r *run, from int) (created driver.Instant, last *state, void bool) {
	creates := r.name == "upsert" || r.name == "insert" || r.name == "save"
	n := 0
	w.during(from, w.step, func(s *state, _, until time.Time) bool {
		if !s.present {
			void = n > 0 || !creates
			return !void
		}
		if s.CreatedAt != 0 && created != 0 && created != s.CreatedAt && !(n == 1 && creates) {
			void = true // another record
		}
		if s.CreatedAt != 0 {
			created = s.CreatedAt
		}
		for _, p := range w.processes {
			for _, d := range p.policies {
				void = void || dead(d.policy, s.Life, p.clock(until)) && !(n == 0 && creates)
			}
		}
		n, last = n+1, s
		return !void
	})
	return created, last, void
}
