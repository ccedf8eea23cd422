//go:build night && !race

package dynamodb

// At night: the full menu with faults and ticks, clocks apart, stale reads and both kinds of process,
// from every start.
func init() {
	everything := append(all(), staleGet)
	nightParts = []part{
		{"night: faults", settings{calls: 1, faults: 2, hold: 3, menu: all()}, ""},
		{"night: faults and ticks", settings{calls: 1, ticks: 2, faults: 1, hold: 3, menu: all()}, ""},
		{"night: ticks and a short hold", settings{calls: 1, ticks: 3, hold: 1, menu: all()}, ""},
		{"night: clocks apart", settings{calls: 1, ticks: 2, skew: 1, hold: 3, menu: all()}, ""},
		{"night: stale reads", settings{calls: 1, ticks: 1, faults: 1, hold: 3, stale: true, menu: everything}, ""},
		{"night: two calls", settings{calls: 2, hold: 3, menu: all()}, "live, touched"},
		{"night: lives in the value, too", settings{calls: 1, ticks: 1, faults: 1, hold: 3, mixed: true, menu: all()}, ""},
	}
}
