//go:build night && !race

package dynamodb

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
		{"night: two calls", settings{calls: 2, hold: 3, menu: append(all(), shorten)}, "live, touched"},
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
