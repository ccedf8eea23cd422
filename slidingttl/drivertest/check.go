package drivertest

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var checkCases = []testCase{{
	name:        "check/healthy",
	explanation: "Check must pass on a store that is configured as the driver's documentation asks, and change nothing. Programs refuse to start if it returns an error.",
	needs:       []Feature{Checker},
	run: func(t *trial) {
		e := t.insert(t.key("a"), 1, t.life(time.Hour))
		c := capability[driver.Checker](t)
		for range 2 {
			t.ok("Check for a life of 90 days", c.Check(t.ctx, 90*day))
		}
		t.stored("after Check", t.key("a"), e)
	},
}, {
	name:        "check/unreachable",
	explanation: "Check must fail when the store does. Otherwise a program starts on a store that it cannot reach.",
	needs:       []Feature{Checker, Fail},
	run: func(t *trial) {
		mend := t.b.Fail()
		t.cleanup(mend)
		if err := capability[driver.Checker](t).Check(t.ctx, day); err == nil {
			t.Errorf("Check passes while the store fails")
		} else if !t.b.Own(err) {
			t.Errorf("Check: the store's own error is not in %v", err)
		}
		mend()
	},
}}
