package explore

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	programFlag  = flag.String("explore.program", "", "the program of TestReplay")
	scheduleFlag = flag.String("explore.schedule", "", "its schedule; empty: all of them")
	faultsFlag   = flag.Int("explore.faults", 1, "how many faults a schedule of it, and at night of any, may have")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Goroutines of a bubble then run in the same order every time.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400) // each run has stores of its own
	os.Exit(m.Run())
}

// TestReplay repeats a run that another test has reported, and prints its steps.
func TestReplay(t *testing.T) {
	if *programFlag == "" {
		return
	}
	p, err := parse(*programFlag)
	if err != nil {
		t.Fatal(err)
	}
	if *scheduleFlag == "" {
		x := explorer{search: search{faults: *faultsFlag}}
		x.explore(t, p)
		x.report(t)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		w, err := repeat(p, *faultsFlag, *scheduleFlag)
		t.Logf("\n%s", strings.Join(w.story, "\n"))
		if err != nil {
			t.Error(err)
		}
		for _, v := range w.broken {
			t.Error(v)
		}
	})
}

// once are programs that broke a promise before a fix.
var once = []string{
	"plain/exact/due/entry@0,delete@1",
	"plain/exact/fresh/delete@0,entry@0,keep@0",
	"plain/exact/due/save@0,delete@1,save@1>2",
	"plain/exact/absent/save@0,close@0",
	"plain/behind/lowered/entry@0,save@1",
}

func TestOnceBroken(t *testing.T) {
	var x explorer
	for _, text := range once {
		p, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		x.explore(t, p)
	}
	x.report(t)
}

// explorer explores programs and reports the promises that they break.
type explorer struct {
	search
	parts    uint64 // of which one is explored; zero: all
	part     uint64
	began    time.Time
	excepted int               // schedules that break one in a way that the documentation allows
	broken   map[string]*tally // by rule
}

// tally counts the programs and schedules that broke a promise, and has the first run.
type tally struct {
	programs, schedules int
	first               *world
}

// explore runs p through its schedules.
func (x *explorer) explore(t *testing.T, p program) {
	if x.broken == nil {
		x.began, x.broken = time.Now(), make(map[string]*tally)
	}
	if h := fnv.New64a(); x.parts > 1 {
		fmt.Fprint(h, p)
		if h.Sum64()%x.parts != x.part {
			return
		}
	}
	programs := make(map[string]bool)
	synctest.Test(t, func(*testing.T) {
		x.run(p, func(w *world) {
			if w.excepted > 0 {
				x.excepted++
			}
			schedules := make(map[string]bool)
			for _, v := range w.broken {
				n := x.broken[v.rule]
				if n == nil {
					n = &tally{first: w}
					x.broken[v.rule] = n
				}
				if !programs[v.rule] {
					n.programs++
				}
				if !schedules[v.rule] {
					n.schedules++
				}
				programs[v.rule], schedules[v.rule] = true, true
			}
		})
	})
}

// report logs what was run, and fails the test for each promise that was broken.
func (x *explorer) report(t *testing.T) {
	t.Helper()
	d := time.Since(x.began)
	t.Logf("%d programs, %d schedules (and %d redundant) of %d steps, %d excepted, in %v: %.0f a second",
		x.programs, x.schedules, x.redundant, x.steps, x.excepted, d.Round(time.Millisecond), float64(x.schedules)/d.Seconds())
	if x.cut > 0 {
		t.Logf("%d programs have more than %d schedules: the others of theirs were left out", x.cut, x.most)
	}
	if x.diverged > 0 { // the rest of their schedules was left out, on a busy machine
		t.Logf("%d programs ran differently when the same schedule was repeated", x.diverged)
		if x.diverged*200 > x.programs {
			t.Error("these are more than one in 200")
		}
	}
	for rule, n := range x.broken {
		i := slices.IndexFunc(n.first.broken, func(v violation) bool { return v.rule == rule })
		t.Errorf("%d programs, %d schedules break %v\n  -run TestReplay -v -explore.faults=%d -explore.program='%v' -explore.schedule='%s'",
			n.programs, n.schedules, n.first.broken[i], x.faults, n.first.program, n.first.schedule())
	}
}
