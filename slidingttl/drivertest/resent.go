package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// told wants the answer to a write to say what happened: it landed, as the store says, and
// then nobody else wrote, or others did and left what they found to be so.
func (t *trial) told(when string, landed bool, err error) {
	switch {
	case errors.Is(err, driver.ErrAmbiguous):
	case err == nil && !landed:
		t.Errorf("%s: it reports success, and has not landed", when)
	case err != nil && landed:
		t.Errorf("%s: it landed, and the error is %v; want none, or driver.ErrAmbiguous", when, err)
	}
	t.quiet(when, err)
}

// eachLost makes each write, has the gate carry it out and lose its answer in each way, and
// calls meanwhile in between. judge gets what it returned.
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
			t.told(w.name+" whose connection broke before it was sent", w.landed(), err)
		})
	},
}, {
	name:        "resent/alone",
	explanation: "Promise 13: a write that landed, and whose answer was lost, is never reported as refused, though a second attempt finds its own record in its way.",
	needs:       []Feature{Gated},
	run: func(t *trial) {
		t.eachLost(func(w stopping) {
			if !w.landed() {
				t.Errorf("%s: Backend.Gate has not delivered it", w.name)
			}
		}, func(when string, w stopping, err error) { t.told(when, w.landed(), err) })
	},
}, {
	name:        "resent/beside-another",
	explanation: "Promise 13: what another process has written after a write landed must stay. A second attempt would apply it twice, delete the other's record, or be refused for it and be made once more by its caller.",
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
