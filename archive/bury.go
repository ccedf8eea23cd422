package archive

import (
	"context"

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
	return g.Writer.Write(ctx, b)
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
