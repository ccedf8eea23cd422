package drivertest

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// lateWrites are those that are planned for a record.
func lateWrites() (late []written) {
	for _, w := range stoppedWrites {
		if w.name == "Replace" || w.name == "Touch" {
			late = append(late, w)
		}
	}
	return late
}

// late makes w, and has meanwhile done before the store carries it out.
func (t *trial) late(w written, key string, was driver.Meta, meanwhile func()) error {
	return t.stop("a late "+w.name, func(deliver func()) Answer {
		meanwhile()
		deliver()
		return Answered
	}, func() error { return w.call(t.ctx, t, key, was) })
}

// lateness is how long a record lives that is to die while a write waits.
func (t *trial) lateness() time.Duration { return max(200*time.Millisecond, 10*t.step) }

// dies returns when the record has died by the store's clock, and a moment later.
func (t *trial) dies(e driver.Entry[Value]) {
	t.until(e.ExpiresAt.Add(max(t.step, 20*time.Millisecond)))
}

var lateCases = []testCase{{
	name:        "late/replaced",
	explanation: "A write that waits on its way while its record is overwritten, or begins another life, must not land: it would undo the other's, or give a new life an old expiry.",
	needs:       []Feature{Gated},
	run: func(t *trial) {
		t.warm()
		again := t.b.Again()
		for _, w := range lateWrites() {
			key := t.key(w.name)
			var is *driver.Entry[Value]
			err := t.late(w, key, t.begin(w, key, t.life(time.Hour)).Meta, func() {
				t.follow("a late "+w.name, w, again, key)
				is = t.found(again, key)
			})
			t.kept("a late "+w.name+" over an overwritten record", err, key, is)

			key = t.key(w.name + " anew")
			err = t.late(w, key, t.begin(w, key, t.life(time.Hour)).Meta, func() {
				if err := again.Delete(t.ctx, key); err != nil {
					t.Errorf("Delete by another process: %v", err)
				}
				t.advance(time.Millisecond) // or the lives are one
				t.follow("a late "+w.name, w, again, key)
				is = t.found(again, key)
			})
			t.kept("a late "+w.name+" of the generation before", err, key, is)

			key = t.key(w.name + " deleted")
			err = t.late(w, key, t.begin(w, key, t.life(time.Hour)).Meta, func() {
				if err := again.Delete(t.ctx, key); err != nil {
					t.Errorf("Delete by another process: %v", err)
				}
			})
			t.notFound("a late "+w.name+" of a deleted record", err)
			if t.found(again, key) != nil {
				t.Errorf("a late %s has made a record that was deleted", w.name)
			}
		}
	},
}, {
	name:        "late/dead",
	explanation: "Promise 5: a write that waits in the store until its record is dead must not land where the store can tell its time. The record would be found, not found, and found again.",
	needs:       []Feature{Gated, Clock},
	run: func(t *trial) {
		t.warm()
		again := t.b.Again()
		for _, w := range lateWrites() {
			key := t.key(w.name)
			was := t.begin(w, key, t.life(t.lateness()))
			err := t.late(w, key, was.Meta, func() { t.dies(was) })
			if err == nil {
				t.Errorf("a %s that came when its record was dead reports success", w.name)
			}
			if e := t.found(again, key); e != nil && (e.Life != was.Life || !e.Value.equal(was.Value)) {
				t.Errorf("a %s that came when its record was dead has landed: there is one with %s", w.name, describe(e.Life))
			}
		}
	},
}, {
	name:        "late/bounded",
	explanation: "A write that comes when its record is dead, on a store that cannot tell, may give it the life that was planned and nothing more: a life counted from when it came would have no bound.",
	needs:       []Feature{Gated},
	run: func(t *trial) {
		t.warm()
		again := t.b.Again()
		for _, w := range lateWrites() {
			key := t.key(w.name)
			was := t.begin(w, key, t.life(t.lateness()))
			planned := t.later(was.Life, time.Hour)
			err := t.late(w, key, was.Meta, func() { t.dies(was) })
			e := t.found(again, key)
			switch {
			case e == nil || e.Life == was.Life:
				if err == nil {
					t.Errorf("a late %s reports success, and has not landed", w.name)
				}
			case e.Life != planned:
				t.Errorf("a late %s has left %s; it was planned to be %s", w.name, describe(e.Life), describe(planned))
			}
		}
	},
}}

// kept wants a late write to have met is, and is to be there still.
func (t *trial) kept(when string, err error, key string, is *driver.Entry[Value]) {
	if is == nil {
		return // which is reported
	}
	t.conflict(when, err, is.Meta)
	e := t.found(t.b.Again(), key)
	if e == nil {
		t.Errorf("%s: the record is gone", when)
		return
	}
	t.same(when, *e, *is)
}
