package dynamodb

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Stats counts what a Driver has done since New. Read at one moment the figures need
// not agree with each other to the last call.
type Stats struct {
	// What DynamoDB said it consumed, with Options.Capacity: read capacity units
	// of Get and GetMulti; write capacity units of Insert, Replace and Delete, and
	// of touches and repairs. What a failed condition costs (a write of the item
	// in the way) DynamoDB bills and does not say: see Refused.
	ReadUnits, WriteUnits, TouchUnits float64

	Refused      uint64 // writes that a condition refused, each billed as a write
	Again        uint64 // of those, sent again because the item meant what was asked for in another form
	Repaired     uint64 // items whose expiry a read mended
	RepairFailed uint64 // items whose expiry a read could not mend

	// By how much DynamoDB's clock is ahead of the system's, and by how much that
	// may be wrong. Zero and zero: no answer yet has said what time it is there.
	ClockOffset, ClockError time.Duration
}

// tally is the counters behind Stats.
type tally struct {
	refused, again, repaired, repairFailed atomic.Uint64

	mu                 sync.Mutex // guards the rest
	read, write, touch float64
}

// consumed adds what a request consumed, if DynamoDB was asked, to sum.
func (t *tally) consumed(sum *float64, c *types.ConsumedCapacity) {
	if c == nil || c.CapacityUnits == nil {
		return
	}
	t.mu.Lock()
	*sum += *c.CapacityUnits
	t.mu.Unlock()
}

// Stats returns the counters.
func (d *Driver[T]) Stats() Stats {
	s := Stats{
		Refused:      d.stats.refused.Load(),
		Again:        d.stats.again.Load(),
		Repaired:     d.stats.repaired.Load(),
		RepairFailed: d.stats.repairFailed.Load(),
	}
	s.ClockOffset, s.ClockError = d.clock.offset()
	d.stats.mu.Lock()
	defer d.stats.mu.Unlock()
	s.ReadUnits, s.WriteUnits, s.TouchUnits = d.stats.read, d.stats.write, d.stats.touch
	return s
}
