package explore

import (
	"slices"
	"testing"
)

// accesses are the calls of a store. The others are made of the same parts: see alike.
var accesses = []string{
	"entry", "getmulti", "touch", "keep", "insert", "upsert", "update", "delete", "deleteentry", "retire", "tighter", "looser", "close", "flush",
}

// alike are calls that work like one of the others.
var alike = []string{"get", "peek", "touchentry"}

// wrapped are the calls of a wrapped repository.
var wrapped = []string{"find", "save"}

// times are the moments that matter to a life.
var times = []string{"before-expiry", "at-expiry", "before-cap", "at-cap"}

// beginnings are the starts at which most programs begin.
var beginnings = []string{"absent", "fresh", "due", "unknown", "dead", "long"}

// TestPairs runs all programs of two calls with a fault, but those of a wrapped repository
// with another call of its process. Over a driver that reads and touches in one, they begin
// where it matters.
func TestPairs(t *testing.T) {
	x := explorer{search: search{faults: 1}, parts: gateParts}
	for driver, starts := range map[string][]string{"plain": beginnings, "overwrite": {"fresh", "due"}} {
		for _, start := range starts {
			combinations(2, 2, slices.Concat(accesses, wrapped, times), func(calls []call) {
				p := program{driver: driver, mode: "exact", start: start, calls: calls}
				if !p.has(wrapped...) || calls[0].process != calls[1].process {
					x.explore(t, p)
				}
			})
		}
	}
	x.report(t)
}

// TestChains changes policies in one process while another goes on, with a record whose
// expiry lies beyond them.
func TestChains(t *testing.T) {
	exploreChains(t, "tighter", "base", "looser", "entry")
}

func exploreChains(t *testing.T, names ...string) {
	x := explorer{parts: gateParts}
	for _, start := range []string{"long", "lowered"} {
		chains(4, 1, names, func(calls []call) {
			x.explore(t, program{driver: "plain", mode: "exact", start: start, calls: calls})
		})
	}
	x.report(t)
}

// TestClose closes a store, or gives it up, at every place in every pair of its calls.
func TestClose(t *testing.T) {
	x := explorer{parts: gateParts}
	names := slices.DeleteFunc(slices.Concat(accesses, wrapped), func(name string) bool { return name == "close" })
	for _, c := range [][2]string{{"exact", "close"}, {"exact", "abort"}, {"background", "close"}} {
		combinations(2, 1, names, func(calls []call) {
			p := program{driver: "plain", mode: c[0], start: "due", calls: append(calls, call{name: c[1]})}
			if !p.has(wrapped...) || calls[0].name == calls[1].name {
				x.explore(t, p)
			}
		})
	}
	x.report(t)
}
