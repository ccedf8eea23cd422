package explore

import (
	"fmt"
	"testing"
)

// lockPrograms calls f with each program whose schedules order the locks of the touches, by the
// hazard that it is for.
func lockPrograms(f func(hazard string, p program)) {
	add := func(hazard, text string) {
		p, err := parse(text)
		if err != nil {
			panic(err)
		}
		f(hazard, p)
	}
	pairs := func(driver, mode string, names ...string) (calls []string) {
		for i, a := range names {
			for _, b := range names[i:] {
				calls = append(calls, a+"@0,"+b+"@0")
			}
		}
		return calls
	}
	// Close, by a context that ends, at every place.
	for _, c := range [][2]string{
		{"plain", "exact"}, {"plain", "background"}, {"plain", "budget"}, {"plain", "broken"}, {"plain", "hangs"}, {"plain", "calls"},
		{"plain", "closes"}, {"readtouch", "exact"}, {"deaf", "exact"}, {"deaf", "background"}, {"plain", "strict"}, {"readtouch+deaf", "exact"},
	} {
		for _, calls := range append(pairs(c[0], c[1], "get", "keep", "flush", "retire"), "batch@0", "get@0", "touch@0", "upsert@0,get@0", "save@0") {
			add("close", fmt.Sprintf("%s+locks/%s/due/%s,close-soon@0,late,late", c[0], c[1], calls))
		}
	}
	for _, mode := range []string{"exact", "background", "hangs", "calls"} {
		add("close", "plain+locks/"+mode+"/due/get@0,abort@0,close-soon@0,late,late")
		add("close", "plain+locks/"+mode+"/due/get@0,close@0,close-soon@0,late,late")
		add("close", "plain+locks/"+mode+"/due/bad@0,get@0,close-soon@0,late,late")
		add("close", "plain+locks/"+mode+"/due/bad@0,close@0,late")
	}
	// A policy function that ends its goroutine.
	for _, driver := range []string{"plain", "versions", "readtouch"} {
		for _, calls := range []string{"get@0,poison@1", "touch@0,poison@1", "keep@0,get@0,poison@1", "exiting@0,get@0", "exiting@0,upsertmulti@0", "poison@1,get@0>1,get@0>1", "save@0,poison@1"} {
			add("exits", driver+"+locks/exits/due/"+calls+",close-soon@0,late,late")
		}
	}
	// Two lives of the key, by one process or two.
	for _, driver := range []string{"plain", "versions", "readtouch", "retains"} {
		for _, mode := range []string{"exact", "background", "apart", "budget"} {
			for _, end := range []string{"delete", "retire"} {
				for _, by := range []string{"0", "1"} {
					add("lives", fmt.Sprintf("%s+locks/%s/due/get@0,%s@%s,upsert@%s>2,late>3,get@0>4,timeout", driver, mode, end, by, by))
				}
			}
			add("retire", fmt.Sprintf("%s+locks/%s/due/retire@0,get@1>1,get@0>2,late", driver, mode))
			add("retire", fmt.Sprintf("%s+locks/%s/due/get@0,retire@1,touch@0>2", driver, mode))
			add("retire", fmt.Sprintf("%s+locks/%s/due/get@1,retire@0,upsert@1>1", driver, mode))
		}
	}
	for _, mode := range []string{"exact", "apart", "behind"} {
		add("retire", "seconds+locks/"+mode+"/due/retire@0,get@1>1,get@0>2,late")
		add("retire", "seconds+locks/"+mode+"/fresh/moment,get@0>1,retire@0>1,get@1>3,get@0>4,late")
		add("retire", "retains+seconds+locks/"+mode+"/due/retire@0,get@1>1,upsert@0>2,get@1>3,late")
	}
	// The expiry passes while an answer is under way.
	for _, driver := range []string{"plain", "versions", "readtouch", "retains"} {
		for _, write := range []string{"upsert", "update", "keep"} {
			for _, read := range []string{"get", "touch"} {
				add("reread", fmt.Sprintf("%s+locks/brief/due/get@0,%s@1,moment,%s@1>3,moment", driver, write, read))
				add("reread", fmt.Sprintf("%s+locks/brief/due/get@0,get@0,%s@1,moment,%s@1>4,moment", driver, write, read))
			}
		}
	}
	// A batch whose caller leaves, and a Flush beside a key that fails.
	for _, mode := range []string{"batch", "background", "exact"} {
		for _, more := range []string{"", ",get@0", ",close-soon@0,late,late", ",flush@0"} {
			add("batch", "plain+locks/"+mode+"/due/batch@0"+more)
		}
	}
	for _, mode := range []string{"background", "budget", "exact", "broken"} {
		add("flush", "plain+locks/"+mode+"/due/get@0,bad@0,flush@0")
		add("flush", "plain+locks/"+mode+"/due/get@0,bad@0,flush@0,late,flush@0>4")
		add("flush", "plain+locks/"+mode+"/due/get@0,flush@0,flush@0,delete@0")
		add("flush", "plain+locks/"+mode+"/due/batch@0,bad@0,flush@0")
	}
	// Hooks that call back, and callers that share.
	for _, mode := range []string{"calls", "closes", "hangs", "exact", "background", "budget", "broken"} {
		add("hooks", "plain+locks/"+mode+"/due/get@0,get@0,late,late")
		add("hooks", "plain+locks/"+mode+"/due/get@0,delete@0,get@0,late,late")
		add("hooks", "plain+locks/"+mode+"/due/bad@0,bad@0,get@0>1,late,late")
		add("hooks", "readtouch+locks/"+mode+"/due/get@0,touch@0,late,late")
	}
}

// TestLocks runs small programs by the schedules that differ in at most two places from the usual
// one, each lock of the touches being a step.
func TestLocks(t *testing.T) {
	x := lockExplorer{delays: delays{delays: 2, faults: 1, most: 240}}
	n := 0
	lockPrograms(func(_ string, p program) {
		if n++; n%gateParts == 0 {
			x.explore(t, p)
		}
	})
	x.report(t)
}

// onceLocks are programs that broke a promise before a fix, by what broke.
var onceLocks = []struct{ name, program string }{
	{"a touch that fails while Close gives up is queued for ever", "plain+locks/background/due/get@0,close-soon@0,late,late"},
	{"the failure of a dead life's touch serves its successor", "plain+locks/exact/due/get@0,delete@0,upsert@0>2,late>3,get@0>4,timeout"},
	{"the same where the touch had waited", "plain+locks/background/due/get@0,delete@0,upsert@0>2,late>3,get@0>4,timeout"},
	{"a touch that reads again takes a touched record for dead", "versions+locks/brief/due/get@0,upsert@1,moment,entry@1>3,moment"},
	{"a clock 100 ms behind revives a retired life", "plain+locks/apart/due/retire@0,get@1>1,get@0>2"},
	{"a cancelled batch starts its touches", "plain+locks/batch/due/batch@0"},
	{"Close from OnTouchError", "plain+locks/closes/due/get@0,late,late"},
	{"Close beside a hook that hangs", "plain+locks/hangs/due/get@0,close-soon@0,late,late"},
	{"Close beside a driver that hangs", "plain+deaf+locks/exact/due/get@0,close-soon@0,late,late"},
	{"Close beside PolicyOf that ends a touch's goroutine", "versions+locks/exits/due/get@0,poison@1,close-soon@0,late,late"},
	{"UpsertMulti with PolicyOf that ends its goroutine", "plain+locks/exits/due/exiting@0,get@0"},
	{"Flush tries a failing touch without a rest", "plain+locks/background/due/get@0,bad@0,flush@0"},
}

func TestOnceBrokenLocks(t *testing.T) {
	for _, o := range onceLocks {
		t.Run(o.name, func(t *testing.T) {
			x := lockExplorer{delays: delays{delays: 2, faults: 1, most: 600 / gateParts}}
			p, err := parse(o.program)
			if err != nil {
				t.Fatal(err)
			}
			x.explore(t, p)
			x.report(t)
		})
	}
}
