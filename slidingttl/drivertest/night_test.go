//go:build night

package drivertest

import (
	"maps"
	"slices"
	"sync"
	"testing"
)

// Each broken driver runs the whole suite and fails its own case. Each case is the first that
// some broken driver fails, so none is superfluous.
func TestBrokenMatrix(t *testing.T) {
	var mu sync.Mutex // guards first
	first := make(map[string]bool)
	t.Run("drivers", func(t *testing.T) {
		for _, b := range allBrokens() {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				names := b.fails(t)
				t.Logf("%d fail: %s", len(names), names)
				if !slices.Contains(names, b.want) {
					t.Errorf("%s passes", b.want)
				} else if names[0] == b.want {
					mu.Lock()
					defer mu.Unlock()
					first[b.want] = true
				}
			})
		}
	})
	wanted := make(map[string]bool)
	for _, b := range allBrokens() {
		wanted[b.want] = true
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !first[name] {
			t.Errorf("whatever fails %s fails another case before it", name)
		}
	}
}

// fails returns the names of the cases that b fails, in the order of the suite.
func (b *broken) fails(t *testing.T) (names []string) {
	h := b.harness()
	for _, c := range cases() {
		if _, ok := h.lacking(c.needs); ok || b.want == inPlace && c.name != inPlace {
			continue
		}
		var failures []string
		t.Run(c.name, func(t *testing.T) { failures = h.failures(t, c) })
		if len(failures) > 0 {
			names = append(names, c.name)
		}
	}
	return names
}
