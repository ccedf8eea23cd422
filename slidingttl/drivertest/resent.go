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

// lose makes w, has the gate carry it out and lose its answer, and returns what it returned.
// meanwhile is called in between.
func (t *trial) lose(when string, w written, key string, was driver.Meta, how Answer, meanwhile func()) error {
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	return t.stop(when, func(deliver func()) Answer {
		deliver()
		meanwhile()
		if how == Silent {
			cancel()
		}
		return how
	}, func() error { return w.call(ctx, t, key, was) })
}

// losses are the ways to lose an answer.
var losses = map[string]Answer{"reset": Reset, "silent": Silent}

var resentCases = []testCase{{
	name:        "resent/unsent",
	explanation: "Promise 13: a write whose connection broke before it was sent is done by a second attempt, or reported as not done.",
	needs:       []Feature{Gated},
	run: func(t *trial) {
		t.warm()
		again := t.b.Again()
		for _, w := range stoppedWrites {
			key := t.key(w.name)
			was := t.begin(w, key, t.life(time.Hour))
			err := t.stop(w.name, func(func()) Answer { return Reset }, func() error { return w.call(t.ctx, t, key, was.Meta) })
			t.told(w.name+" whose connection broke before it was sent", w.landed(&was, t.found(again, key)), err)
		}
	},
}, {
	name:        "resent/alone",
	explanation: "Promise 13: a write that landed, and whose answer was lost, is never reported as refused, though a second attempt finds its own record in its way.",
	needs:       []Feature{Gated},
	run: func(t *trial) {
		t.warm()
		again := t.b.Again()
		for how, answer := range losses {
			for _, w := range stoppedWrites {
				key := t.key(how + w.name)
				was := t.begin(w, key, t.life(time.Hour))
				when := fmt.Sprintf("%s whose answer was lost (%s)", w.name, how)
				err := t.lose(when, w, key, was.Meta, answer, func() {
					if !w.landed(&was, t.found(again, key)) {
						t.Errorf("%s: Backend.Gate has not delivered it", when)
					}
				})
				t.told(when, w.landed(&was, t.found(again, key)), err)
			}
		}
	},
}, {
	name:        "resent/beside-another",
	explanation: "Promise 13: what another process has written after a write landed must stay. A second attempt would apply it twice, delete the other's record, or be refused for it and be made once more by its caller.",
	needs:       []Feature{Gated},
	run: func(t *trial) {
		t.warm()
		again := t.b.Again()
		for how, answer := range losses {
			for _, w := range stoppedWrites {
				key := t.key(how + w.name)
				was := t.begin(w, key, t.life(time.Hour))
				when := fmt.Sprintf("%s whose answer was lost (%s), with another writer after it", w.name, how)
				err := t.lose(when, w, key, was.Meta, answer, func() { t.follow(when, w, again, key) })
				e := t.found(again, key)
				switch kept := e != nil && e.Value.equal(value(another)); {
				case errors.Is(err, driver.ErrAmbiguous):
				case err != nil:
					t.Errorf("%s: it landed, and the error is %v; want none, or driver.ErrAmbiguous", when, err)
				case !kept:
					t.Errorf("%s: it reports success, and what the other wrote is gone", when)
				}
				t.quiet(when, err)
			}
		}
	},
}}

// follow has another process write, by d, what follows from w.
func (t *trial) follow(when string, w written, d driver.Driver[Value], key string) {
	is, err := t.found(d, key), error(nil)
	if is == nil {
		_, err = d.Insert(t.ctx, key, value(another), t.life(time.Hour), t.now())
	} else {
		_, err = d.Replace(t.ctx, key, value(another), is.Meta, t.later(is.Life, time.Hour), t.now())
	}
	if err != nil {
		t.Errorf("%s: the other's write: %v", when, err)
	}
}
