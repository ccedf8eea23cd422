//go:build !race

// The race detector allocates too.

package slidingttl_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// The allocations of the most frequent calls of a store in memory.
func TestAllocations(t *testing.T) {
	for _, slack := range []time.Duration{0, 3 * time.Minute} {
		d, err := memory.New[int](nil)
		must(t, err)
		t.Cleanup(func() { _ = d.Close() })
		s := open[int](t, d, withSlack(session, slack), nil)
		keys := make([]string, 5000)
		for i := range keys {
			keys[i] = strconv.Itoa(i)
		}
		asked := open(t, d, session, &slidingttl.Options[int]{PolicyOf: func(int) slidingttl.Policy { return withSlack(session, slack) }})
		next := 0
		key := func() string { next++; return keys[next%len(keys)] }
		for name, c := range map[string]struct {
			most float64
			call func() error
		}{
			"Upsert": {4, func() error { return s.Upsert(t.Context(), key(), 1) }},
			"Insert": {2, func() error { next++; return s.Insert(t.Context(), strconv.Itoa(1e6+next), 1) }}, // one is the key
			"Get":    {1, func() error { _, err := s.Get(t.Context(), "0"); return err }},
			"Peek and TouchEntry by PolicyOf": {1, func() error {
				e, err := asked.Peek(t.Context(), "0")
				if err == nil {
					_, err = asked.TouchEntry(t.Context(), "0", e)
				}
				return err
			}},
		} {
			must(t, s.Upsert(t.Context(), "0", 1))
			if n := testing.AllocsPerRun(4000, func() {
				if err := c.call(); err != nil {
					t.Fatal(err)
				}
			}); n > c.most {
				t.Errorf("slack %v: %s allocates %v times, want at most %v", slack, name, n, c.most)
			}
		}
	}
}
