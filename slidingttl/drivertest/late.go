package drivertest

import (
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// eachLate calls f with each write that is planned for a record. The record lives for ttl.
func (t *trial) eachLate(how string, ttl time.Duration, f func(w stopping)) {
	planned := slices.DeleteFunc(slices.Clone(stoppedWrites), func(w written) bool { return w.name != "Replace" && w.name != "Touch" })
	t.eachStopped(planned, how, ttl, f)
}

// late makes the write, and runs meanwhile before the store executes it.
func (w *stopping) late(meanwhile func()) error {
	return w.stop("a late "+w.name, func(deliver func()) Answer {
		meanwhile()
		deliver()
		return Answered
	}, func() error { return w.write(w.ctx) })
}

// lateness is the life of a record that dies while a write waits. A store on a busy machine must
// have inserted it before.
func (t *trial) lateness() time.Duration { return max(time.Second, 10*t.step) }

// dies returns a moment after the write's record has died by the store's clock.
func (w *stopping) dies() {
	w.until(w.was.ExpiresAt.Add(max(w.step, 20*time.Millisecond)))
}

// removed deletes the write's record, from another process.
func (w *stopping) removed() {
	if err := w.peer.Delete(w.ctx, w.key); err != nil {
		w.Errorf("Delete by another process: %v", err)
	}
}

var lateCases = []testCase{{
	name:        "late/replaced",
	explanation: "A write that is delayed while its record is overwritten, or its key begins another life, must not land. Otherwise it undoes the other write, or gives a new life an old expiry.",
	needs:       []Feature{Gated},
	run: func(t *trial) {
		t.warm()
		t.eachLate("", time.Hour, func(w stopping) {
			t.kept("a late "+w.name+" over an overwritten record", &w, func() { w.follow() })
		})
		t.eachLate("next ", time.Hour, func(w stopping) {
			t.kept("a late "+w.name+" of the generation before", &w, func() {
				w.removed()
				t.advance(time.Millisecond) // or the lives are one
				w.follow()
			})
		})
		t.eachLate("deleted ", time.Hour, func(w stopping) {
			t.notFound("a late "+w.name+" of a deleted record", w.late(w.removed))
			if w.found() != nil {
				t.Errorf("a late %s has made a record that was deleted", w.name)
			}
		})
	},
}, {
	name:        "late/dead",
	explanation: "Promise 5: a write that waits in the store until its record is dead must not land if the store can tell its time. Otherwise the record is found, not found, and found again.",
	needs:       []Feature{Gated, Clock},
	run: func(t *trial) {
		t.ctx = t.byStore
		t.warm()
		t.clock.set(t.backendNow()) // the store refuses a life that has ended
		t.eachLate("", t.lateness(), func(w stopping) {
			if err := w.late(w.dies); err == nil {
				t.Errorf("a %s that came when its record was dead reports success", w.name)
			}
			if e := w.found(); e != nil && (e.Life != w.was.Life || !e.Value.equal(w.was.Value)) {
				t.Errorf("a %s that came when its record was dead has landed: there is one with %s", w.name, describe(e.Life))
			}
		})
	},
}, {
	name:        "late/bounded",
	explanation: "If the store cannot tell its time, a write that arrives when its record is dead may give it the planned life and nothing more. A life counted from the arrival would have no bound.",
	needs:       []Feature{Gated},
	run: func(t *trial) {
		t.warm()
		t.eachLate("", t.lateness(), func(w stopping) {
			planned := t.later(w.was.Life, time.Hour)
			err := w.late(w.dies)
			switch e := w.found(); {
			case e == nil || e.Life == w.was.Life:
				if err == nil {
					t.Errorf("a late %s reports success, and has not landed", w.name)
				}
			case e.Life != planned:
				t.Errorf("a late %s has left %s; it was planned to be %s", w.name, describe(e.Life), describe(planned))
			}
		})
	},
}}

// kept delays a write until after meanwhile, and wants it to conflict with meanwhile's result.
func (t *trial) kept(when string, w *stopping, meanwhile func()) {
	var is *driver.Entry[Value]
	err := w.late(func() {
		meanwhile()
		is = w.found()
	})
	if is == nil {
		return // already reported
	}
	t.conflict(when, err, is.Meta)
	e := w.found()
	if e == nil {
		t.Errorf("%s: the record is gone", when)
		return
	}
	t.same(when, *e, *is)
}
