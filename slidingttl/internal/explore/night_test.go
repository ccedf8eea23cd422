//go:build night

package explore

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

var (
	nightFlag = flag.Uint64("explore.night", uint64(time.Now().Unix()/86400), "which part of the triples; one more each night sees them all")
	partsFlag = flag.Uint64("explore.parts", 8, "of how many parts the triples are")
	shardFlag = flag.String("explore.shard", "", "the share of this process, as 0/2; empty: one process for each core")
	limitFlag = flag.Duration("explore.limit", 15*time.Minute, "when the triples end, wherever they are")
)

// singly are the drivers, and the modes over a plain one.
var singly = [][2]string{
	{"plain", "exact"}, {"readtouch", "exact"}, {"overwrite", "exact"}, {"versions", "exact"}, {"stale", "exact"}, {"retains", "exact"},
	{"plain", "slack"}, {"plain", "ahead"}, {"plain", "behind"}, {"plain", "background"}, {"plain", "budget"}, {"plain", "broken"}, {"plain", "strict"},
}

// mixed are drivers that have several features, in modes where that may matter.
var mixed = [][2]string{
	{"overwrite+versions", "slack"}, {"stale+retains", "background"}, {"stale+retains+versions", "ahead"}, {"overwrite+retains", "behind"},
}

// TestEveryPair runs all pairs with a fault over every driver and in every mode.
func TestEveryPair(t *testing.T) {
	shard, shards, ok := share(t)
	if !ok {
		return
	}
	names := slices.Concat(accesses, alike, wrapped, times, []string{"remove", "late", "timeout"})
	for _, c := range slices.Concat(singly, mixed) {
		t.Run(c[0]+" "+c[1], func(t *testing.T) {
			x := explorer{search: search{faults: *faultsFlag}, parts: shards, part: shard}
			for _, start := range append([]string{"lowered", "foreign"}, beginnings...) {
				combinations(2, 2, names, func(calls []call) {
					x.explore(t, program{driver: c[0], mode: c[1], start: start, calls: calls})
				})
			}
			x.report(t)
		})
	}
}

// TestWritingChains changes policies between writes as well.
func TestWritingChains(t *testing.T) {
	exploreChains(t, "tighter", "base", "looser", "entry", "upsert")
}

// TestTriples runs a part of all programs of three calls with a fault, of up to three
// processes, over every driver and in every mode.
func TestTriples(t *testing.T) {
	shard, shards, ok := share(t)
	if !ok {
		return
	}
	x := explorer{search: search{faults: *faultsFlag, most: 20_000}, parts: *partsFlag * shards, part: *nightFlag%*partsFlag*shards + shard}
	left := 0
	began := time.Now()
	names := slices.DeleteFunc(slices.Concat(accesses, wrapped, times), func(name string) bool { return name == "getmulti" })
	combinations(3, 3, names, func(calls []call) {
		for _, start := range beginnings {
			for _, c := range singly {
				p := program{driver: c[0], mode: c[1], start: start, calls: calls}
				if time.Since(began) > *limitFlag {
					left++
				} else {
					x.explore(t, p)
				}
			}
		}
	})
	if left > 0 {
		t.Logf("the time was over with %d programs of all parts left", left)
	}
	x.report(t)
}

// share is the part of the test's programs that this process runs. Not ok: it has run the test once
// on each core, for the goroutines of a bubble run in the same order only where they have one core.
func share(t *testing.T) (shard, shards uint64, ok bool) {
	if *shardFlag != "" {
		if n, err := fmt.Sscanf(*shardFlag, "%d/%d", &shard, &shards); n != 2 || err != nil || shard >= shards {
			t.Fatalf("-explore.shard=%q: must be as 0/2", *shardFlag)
		}
		return shard, shards, true
	}
	var group sync.WaitGroup
	for i := range runtime.NumCPU() {
		group.Go(func() {
			args := append(os.Args[1:], fmt.Sprintf("-test.run=^%s$", t.Name()), fmt.Sprintf("-explore.shard=%d/%d", i, runtime.NumCPU()))
			out, err := exec.Command(os.Args[0], args...).CombinedOutput()
			if t.Logf("%s", out); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	group.Wait()
	return 0, 0, false
}

func init() { drains, drainsWithin = 1000, 100*time.Millisecond }

// TestEveryCrowd runs crowds that are drawn from seeds.
func TestEveryCrowd(t *testing.T) {
	began := time.Now()
	for seed := *nightFlag * 1000; time.Since(began) < *limitFlag/5; seed++ {
		c := drawCrowd(rand.New(rand.NewPCG(seed, 0)))
		for _, b := range c.play(t) {
			t.Errorf("-explore.crowd=%d, %+v: %s", seed, c, b)
		}
	}
}

// TestEveryLock runs programs that are drawn from seeds by the schedules that differ in up to three
// places from the usual one, each lock of the touches being a step, with two faults.
func TestEveryLock(t *testing.T) {
	shard, shards, ok := share(t)
	if !ok {
		return
	}
	x := lockExplorer{delays: delays{delays: 3, faults: 2, most: 1500}}
	began := time.Now()
	for seed := *nightFlag*1_000_000 + shard; time.Since(began) < *limitFlag; seed += shards {
		x.explore(t, drawProgram(rand.New(rand.NewPCG(seed, 1))))
	}
	x.report(t)
}

// drawProgram returns a program whose locks are ordered.
func drawProgram(r *rand.Rand) program {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	p := program{
		driver: one("plain", "plain", "readtouch", "overwrite", "versions", "stale", "retains", "deaf", "seconds", "stale+retains", "readtouch+deaf") + "+locks",
		mode:   one("exact", "exact", "background", "budget", "slack", "apart", "brief", "batch", "calls", "closes", "hangs", "exits", "broken", "strict", "behind", "ahead"),
		start:  one("due", "due", "due", "fresh", "unknown", "dead", "long", "foreign", "absent"),
	}
	names := slices.Concat(accesses, alike, wrapped, []string{"get", "get", "batch", "bad", "poison", "upsertmulti", "retire", "delete", "upsert", "abort", "close-soon"})
	if p.mode == "brief" || p.mode == "exits" { // PolicyOf decides
		names = slices.DeleteFunc(names, func(n string) bool { return n == "tighter" || n == "looser" })
		p.start = one("due", "fresh", "unknown", "absent")
	}
	if p.mode != "exits" {
		names = slices.DeleteFunc(names, func(n string) bool { return n == "poison" })
	}
	for i := range 2 + r.IntN(4) {
		c := call{name: names[r.IntN(len(names))], process: r.IntN(4) / 3}
		if i > 0 && r.IntN(3) == 0 {
			c.after = 1 + r.IntN(i)
		}
		p.calls = append(p.calls, c)
		if r.IntN(4) == 0 {
			p.calls = append(p.calls, call{name: one("moment", "late", "timeout", "minute", "at-expiry"), process: ofTime, after: r.IntN(2) * len(p.calls)})
		}
	}
	if r.IntN(2) == 0 {
		p.calls = append(p.calls, call{name: "close-soon"}, call{name: "late", process: ofTime}, call{name: "late", process: ofTime})
	}
	return p
}
