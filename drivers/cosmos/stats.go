package cosmos

import "sync"

// Stats counts what a Driver has done since New.
type Stats struct {
	// Request units that Cosmos DB reported: of Get, Latest, GetMulti, Raw and scans, and of the
	// reads after a conflict; of Insert, Replace, Upsert, Remove and Delete; and of touches.
	// Refused writes are included.
	ReadUnits, WriteUnits, TouchUnits float64

	Refused uint64 // writes that a condition refused, or an item in the way
	Again   uint64 // refused writes that were sent again, because the item was the planned one in another form
}

type tally struct {
	mu sync.Mutex // guards Stats
	Stats
}

// charged adds what a request cost to sum.
func (t *tally) charged(sum *float64, units float32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*sum += float64(units)
}

// count adds one to n.
func (t *tally) count(n *uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
}

// Stats returns the counters.
func (d *Driver[T]) Stats() Stats {
	d.stats.mu.Lock()
	defer d.stats.mu.Unlock()
	return d.stats.Stats
}
