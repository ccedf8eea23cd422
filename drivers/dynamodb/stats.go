package dynamodb

import (
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Stats counts what a Driver has done since New.
type Stats struct {
	// What DynamoDB said it consumed: read capacity units of Get, Latest and
	// GetMulti; write capacity units of Insert, Replace and Delete, and of touches.
	// What a failed condition costs (a write of the item in the way) DynamoDB bills
	// and does not say: see Refused.
	ReadUnits, WriteUnits, TouchUnits float64

	Refused uint64 // writes that a condition refused, each billed as a write
	Again   uint64 // of those, sent again because the item meant what was asked for in another form
}

// tally is the counters behind Stats.
type tally struct {
	mu sync.Mutex // guards Stats
	Stats
}

// consumed adds what a request consumed to sum.
func (t *tally) consumed(sum *float64, c *types.ConsumedCapacity) {
	if c != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		*sum += aws.ToFloat64(c.CapacityUnits)
	}
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
