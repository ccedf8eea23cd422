//go:build !race && night

package dynamodb

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// At night: the full menu with faults and ticks, clocks apart, stale reads and both kinds of process,
// from every start.
func init() {
	everything := append(all(), shorten, staleGet)
	nightParts = []part{
		{"night: faults", settings{calls: 1, faults: 2, hold: 3, menu: append(all(), shorten)}, ""},
		{"night: faults and ticks", settings{calls: 1, ticks: 2, faults: 1, hold: 3, menu: append(all(), shorten)}, ""},
		{"night: ticks and a short hold", settings{calls: 1, ticks: 3, hold: 1, menu: append(all(), shorten)}, ""},
		{"night: clocks apart", settings{calls: 1, ticks: 2, skew: 1, hold: 3, menu: append(all(), shorten)}, ""},
		{"night: stale reads", settings{calls: 1, ticks: 1, faults: 1, hold: 3, stale: true, menu: everything}, ""},
		{"night: lives in the value, too", settings{calls: 1, ticks: 1, faults: 1, hold: 3, mixed: true, menu: append(all(), shorten)}, ""},
		{"night: overwrites that shorten, a tick", settings{calls: 2, ticks: 1, hold: 3, menus: [3][]kind{{shorten, get}, {touch, update, shorten}}}, "live, touched"},
		{"night: overwrites that shorten, a fault", settings{calls: 2, faults: 1, refuses: true, hold: 3, menus: [3][]kind{{shorten, get}, {touch, update, shorten}}}, "live, touched"},
		{"night: an insert after an overwrite that is cut off", settings{calls: 2, ticks: 1, skew: 1, faults: 1, hold: 3, menus: [3][]kind{{shorten, touch}, {insert}}}, "live, touched"},
		{"night: a deletion beside touches, two faults", settings{calls: 2, faults: 2, hold: 3, mixed: true, menus: [3][]kind{{lower, touch}, {remove}}}, "live, touched"},
		{"night: a touch after a doubt has run out", settings{calls: 2, ticks: 5, faults: 1, hold: 9, menus: [3][]kind{{touchLong, remove}, {touch, get}}}, "live for long"},
		{"night: a touch after an erasure", settings{calls: 2, ticks: 5, faults: 1, hold: 9, menus: [3][]kind{{remove, erase}, {touch, get}}}, "live for long"},
		{"night: an insert after an erasure", settings{calls: 2, ticks: 2, faults: 1, hold: 9, menus: [3][]kind{{erase, touch}, {insert, upsertKnown, removeEntry}}}, "deleted long ago"},
		{"night: a longer hold", settings{calls: 5, ticks: 4, hold: 4, longer: 9, lifeLasts: 1, menus: [3][]kind{nil, {update, keep, get}}}, "live, touched"},
	}
}

var (
	firstChoice = flag.Int("schedules.first", 0, "the first of the choices that TestSchedulesOfTwoCalls explores")
	choices     = flag.Int("schedules.choices", 300, "how many it explores")
)

// TestSchedulesOfTwoCalls explores two calls of each of two processes, where each process has two kinds to choose from.
// There are 3,081 such choices, which are explored one by one: together they have more states than a machine holds.
func TestSchedulesOfTwoCalls(t *testing.T) {
	var pairs [][]kind
	for i, k := range append(all(), shorten) {
		for _, other := range append(all(), shorten)[i:] {
			pairs = append(pairs, []kind{k, other})
		}
	}
	var menus [][3][]kind
	for i := range pairs {
		for j := range i + 1 {
			menus = append(menus, [3][]kind{pairs[i], pairs[j]})
		}
	}
	var states atomic.Int64
	t.Cleanup(func() { t.Logf("%d of %d choices, %d states", *choices, len(menus), states.Load()) })
	for n := *firstChoice; n < *firstChoice+*choices; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			// 997 has no factor of their number: those of a night are from everywhere. A lowering, and a
			// retirement, draws its generation anew beside an overwrite.
			m := menus[n*997%len(menus)]
			lowers := slices.ContainsFunc(slices.Concat(m[0], m[1]), func(k kind) bool { return k == lower || k == retire })
			n, bad := schedules(t, settings{calls: 2, hold: 3, distinct: lowers, menus: m}, "live, touched")
			states.Add(int64(n))
			if bad != nil {
				t.Errorf("%v: a schedule that breaks the contract:\n%s", m, strings.Join(bad, "\n"))
			}
		})
	}
}
