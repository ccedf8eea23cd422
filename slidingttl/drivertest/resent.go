package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// saysWhatHappened fails if err reports a write that landed as failed, or one that did not land
// as successful. landed is what the store says; other writers leave it visible.
func (t *trial) saysWhatHappened(when string, landed bool, err error) {
	switch {
	case errors.Is(err, driver.ErrAmbiguous):
	case err == nil && !landed:
		t.Errorf("%s: it reports success, and has not landed", when)
	case err != nil && landed:
		t.Errorf("%s: it landed, and the error is %v; want none, or driver.ErrAmbiguous", when, err)
	}
	t.quiet(when, err)
}

// eachLost makes each write. The gate delivers it and loses its answer, in each way, and
// meanwhile is called before the write returns. judge gets the error that it returned.
func (t *trial) eachLost(meanwhile func(w stopping), judge func(when string, w stopping, err error)) {
	t.warm()
	for name, how := range map[string]Answer{"reset": Reset, "silent": Silent} {
		t.eachStopped(stoppedWrites, name, time.Hour, func(w stopping) {
			when := fmt.Sprintf("%s whose answer was lost (%s)", w.name, name)
			ctx, cancel := context.WithCancel(t.ctx)
			defer cancel()
			err := w.stop(when, func(deliver func()) Answer {
				deliver()
				meanwhile(w)
				if how == Silent {
					cancel()
				}
				return how
			}, func() error { return w.write(ctx) })
			judge(when, w, err)
		})
	}
}

var resentCases = []testCase{{
	name:        "resent/unsent",
	explanation: "Promise 13: a write whose connection broke before it was sent is done by a second attempt, or reported as not done.",
	needs:       []Feature{Gated},
	run: func(t *trial) {
		t.warm()
		t.eachStopped(stoppedWrites, "", time.Hour, func(w stopping) {
			err := w.stop(w.name, func(func()) Answer { return Reset }, func() error { return w.write(t.ctx) })
			t.saysWhatHappened(w.name+" whose connection broke before it was sent", w.landed(), err)
		})
	},
}, {
	name:        "resent/alone",
	explanation: "Promise 13: a write that landed but whose answer was lost is never reported as refused, even if a second attempt meets the record that the first one wrote.",
	needs:       []Feature{Gated},
	run: func(t *trial) {
		t.eachLost(func(w stopping) {
			if !w.landed() {
				t.Errorf("%s: Backend.Gate has not delivered it", w.name)
			}
		}, func(when string, w stopping, err error) { t.saysWhatHappened(when, w.landed(), err) })
	},
}, {
	name:        "resent/beside-another",
	explanation: "Promise 13: what another process writes after a write landed must stay. Otherwise a second attempt applies the write twice, deletes the other process's record, or is refused because of it and repeated by its caller.",
	needs:       []Feature{Gated},
	run: func(t *trial) {
		t.eachLost(func(w stopping) { w.follow() }, func(when string, w stopping, err error) {
			e := w.found()
			switch kept := e != nil && e.Value.equal(value(another)); {
			case errors.Is(err, driver.ErrAmbiguous):
			case err != nil:
				t.Errorf("%s, with another writer after it: it landed, and the error is %v; want none, or driver.ErrAmbiguous", when, err)
			case !kept:
				t.Errorf("%s, with another writer after it: it reports success, and what the other wrote is gone", when)
			}
			t.quiet(when, err)
		})
	},
}}
