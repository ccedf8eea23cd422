package drivertest

import (
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var faultCases = []testCase{{
	name:        "fault/own-error",
	explanation: "When the store fails, its own error must be reachable with errors.As and must not match the driver's errors. Otherwise a store that is down looks like one without the record, and logs all users out.",
	needs:       []Feature{Fail},
	run: func(t *trial) {
		ops := t.ops()
		entries := make([]driver.Entry[Value], len(ops))
		for i, op := range ops {
			entries[i] = t.insert(t.key(op.name), 1, t.life(time.Hour))
		}
		mend := t.b.Fail()
		t.cleanup(mend)
		for i, op := range ops {
			err := op.call(t.ctx, t.key(op.name), entries[i].Meta)
			switch {
			case err == nil:
				t.Errorf("%s reports success while the store fails", op.name)
				continue
			case errors.Is(err, driver.ErrNotFound), errors.Is(err, driver.ErrConflict), errors.Is(err, driver.ErrInvalid):
				t.Errorf("%s: a failing store came out as an answer: %v", op.name, err)
			case !t.b.Own(err):
				t.Errorf("%s: the store's own error is not in %v", op.name, err)
			}
			t.quiet(op.name+" while the store fails", err)
		}
		mend()
		for i, op := range ops {
			t.stored("after "+op.name+" failed and the store was mended", t.key(op.name), entries[i])
		}
	},
}}
