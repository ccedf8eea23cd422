package dynamodb

import (
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Stats counts what a Driver has done since New.
type Stats struct {
	// Capacity units that DynamoDB reported: read units of Get, Latest and GetMulti; write units of
	// Insert, Replace and Delete, and of touches. DynamoDB bills a failed condition as a write of
	// the item found, but does not report it: see Refused.
	ReadUnits, WriteUnits, TouchUnits float64

	Refused uint64 // writes that a condition refused, each billed as a write
	Again   uint64 // refused writes that were sent again, because the item was the planned one in another form
}

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
