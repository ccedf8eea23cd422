package archive

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Grave archives the dead records of one store: a Writer with what it needs to know of the
// store. A sweeper of SQL, upkeep.Harvest, a consumer of DynamoDB Streams and a Queue call
// its Bury.
type Grave struct {
	Writer *Writer
	Source string // Batch.Source: the name of the store

	// Policy returns the policy of a key, which tells death of idleness from death of age.
	// Nil: the reason of records that nobody deleted is Unknown.
	Policy func(key string) slidingttl.Policy

	// Through is the time by which the source has handed over all that was due, for Stats:
	// a method of that name of SQL's Sweeper, a Stream or a Queue. Nil: what Harvest has
	// come to.
	Through func() time.Time

	counts    tally
	harvested atomic.Int64 // by when what has died is archived, in milliseconds
}

// Stats returns what the Grave has archived since it was made, and how far. It may be called
// at any time.
func (g *Grave) Stats() driver.BuryStats {
	c := &g.counts
	s := driver.BuryStats{Records: c.records.Load(), Bytes: c.bytes.Load(), Quarantined: c.quarantined.Load(), Failures: c.failures.Load()}
	if at := g.harvested.Load(); g.Through != nil {
		s.Through = g.Through()
	} else if at != 0 {
		s.Through = time.UnixMilli(at)
	}
	return s
}

// Bury writes dead records to the archive, and returns nil when they are durable. It is
// safe for concurrent use. Errors: those of Writer.Write.
func (g *Grave) Bury(ctx context.Context, dead []driver.Dead) error {
	b := Batch{Source: g.Source, Records: make([]Record, len(dead))}
	for i := range dead {
		d := &dead[i]
		b.Records[i] = Record{
			Key:       d.Key,
			CreatedAt: d.CreatedAt,
			ExpiredAt: d.At,
			Reason:    g.reason(d),
			Format:    d.Format,
			Value:     d.Value,
			Problem:   d.Problem,
		}
	}
	return g.Writer.write(ctx, b, &g.counts)
}

func (g *Grave) reason(d *driver.Dead) Reason {
	switch {
	case d.Deleted:
		return Deleted
	case g.Policy == nil:
		return Unknown
	}
	if p := g.Policy(d.Key); d.CreatedAt != 0 && d.At >= d.CreatedAt.Add(p.MaxLifetime) {
		return Age
	}
	return Idle
}
