package drivertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// testCase is one rule and what breaking it means.
type testCase struct {
	name        string
	explanation string // what a failure means to a user
	needs       []Feature
	run         func(t *trial)
}

// cases returns the whole suite.
func cases() []testCase {
	return slices.Concat(
		harnessCases,
		getCases, insertCases, replaceCases, touchCases, deleteCases,
		lifeCases, valueCases, keyCases, contextCases, faultCases, raceCases,
		removeCases, latestCases, upsertCases, overwriteCases, batchCases, readTouchCases, localCases, clockCases, checkCases,
		scanCases, rawCases, mendCases, retainCases,
		storeLifeCases, storeTouchCases, storeRetireCases, storeRaceCases, storeForeignCases, storeErrorCases,
		lateCases, resentCases, hostileCases, apartCases,
	)
}

// Run tests the driver that h opens, each case in a subtest of t. It may be called
// for several configurations of one driver.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Open == nil {
		t.Fatal("drivertest: Harness.Open is nil: it is required")
	}
	var left []string
	for _, c := range cases() {
		if f, ok := h.lacking(c.needs); ok {
			left = append(left, fmt.Sprintf("%s: lacks %s: %s", c.name, f, h.Lacks[f]))
			continue
		}
		if h.Cases != nil && !h.Cases(c.name) {
			left = append(left, c.name+": Harness.Cases does not choose it")
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if h.Parallel {
				t.Parallel()
			}
			failures := h.failures(t, c)
			if len(failures) > 0 {
				t.Errorf("%s\n%s", strings.Join(failures, "\n"), c.explanation)
			}
		})
	}
	if len(left) > 0 {
		t.Logf("%d cases left out:\n%s", len(left), strings.Join(left, "\n"))
	}
}

// failures runs c and returns its failures. t fails only if the harness does.
func (h *Harness) failures(t *testing.T, c testCase) (failed []string) {
	run := func(t *testing.T) {
		b := h.Open(t)
		if b == nil || b.Driver == nil {
			t.Fatal("drivertest: Harness.Open returned no driver")
		}
		for _, f := range c.needs {
			if !features[f](b) {
				failed = []string{fmt.Sprintf("the backend has no %s, and Harness.Lacks gives no reason", f)}
				return
			}
		}
		failed = newTrial(t.Context(), h, b).execute(c)
	}
	if h.Bubble {
		synctest.Test(t, run)
	} else {
		run(t)
	}
	return failed
}

var harnessCases = []testCase{{
	name:        "harness",
	explanation: "The harness contradicts itself, so the other cases prove nothing.",
	run: func(t *trial) {
		for _, f := range slices.Sorted(maps.Keys(t.h.Lacks)) {
			has, known := features[f]
			switch {
			case !known:
				t.Errorf("Harness.Lacks names %q, which is no Feature", f)
			case t.h.Lacks[f] == "":
				t.Errorf("Harness.Lacks gives no reason for %s", f)
			case f != Copies && f != Mixed && f != Replaced && has(t.b):
				t.Errorf("Harness.Lacks names %s, but the backend has it", f)
			}
		}
		if has[driver.Mender](t.b) != (t.b.Mar != nil) {
			t.Errorf("a driver.Mender and Backend.Mar need each other")
		}
		if (t.b.Fail == nil) != (t.b.Own == nil) {
			t.Errorf("Backend.Fail and Backend.Own need each other")
		}
		if t.b.MaxKey != 0 && t.b.MaxKey < 64 {
			t.Errorf("Backend.MaxKey is %d: must be at least 64, or zero for no limit", t.b.MaxKey)
		}
	},
}, {
	name:        "harness/time",
	explanation: "Backend.Wait does not move Backend.Now, so no case can wait for an expiry.",
	run: func(t *trial) {
		before := t.backendNow()
		t.wait(t.unit)
		if passed := t.backendNow().Sub(before); passed < t.unit-t.step { // less a step: the driver may learn the clock again meanwhile
			t.Errorf("after a Wait of %v Now had moved by %v", t.unit, passed)
		}
	},
}}
