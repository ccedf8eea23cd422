package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
)

// TestTally: each session has counts of its own, and none once it is over.
func TestTally(t *testing.T) {
	var c tally
	start := time.Now()
	read := func(id string, stored, at time.Duration) {
		c.read(session.Info{ID: id, IdleExpiry: start.Add(stored), AbsoluteExpiry: start.Add(time.Hour)}, start.Add(at))
	}
	read("a", 10, 0)
	read("b", 10, 1)
	read("a", 10, 2)
	read("a", 15, 3)
	read("a", 12, 4) // as an earlier request saw it
	want := func(id, counts string) {
		t.Helper()
		reads, writes := c.of(id)
		if got := fmt.Sprint(reads, " ", writes); got != counts {
			t.Errorf("%s: %s reads and writes, want %s", id, got, counts)
		}
	}
	want("a", "4 2")
	want("b", "1 1")
	want("c", "0 0")
	read("c", 10, time.Hour+1)
	want("a", "0 0")
	want("c", "1 1")
}
