package archive

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Archiver archives the dead records of one store. SQL's sweeper, upkeep.Harvest, a consumer of
// DynamoDB Streams call its Archive.
type Archiver struct {
	Writer *Writer
	Source string // the name of the store: see Writer.Write

	// Policy returns the policy of a key. It decides between the reasons Idle and Age. Nil:
	// the reason is Unknown, except for deleted records.
	Policy func(key string) slidingttl.Policy

	// Through returns the time up to which the source has handed over all that was due, for Stats.
	// SQL's Sweeper and a Stream have a method of that name. Nil: the position of
	// Harvest.
	Through func() time.Time

	counts    tally
	harvested atomic.Int64 // Unix milliseconds; deaths up to then are archived
}

// Stats returns counters since the Archiver was made, and the time up to which deaths are archived.
// It may be called at any time.
func (g *Archiver) Stats() driver.BuryStats {
	c := &g.counts
	s := driver.BuryStats{Records: c.records.Load(), Bytes: c.bytes.Load(), Quarantined: c.quarantined.Load(), Failures: c.failures.Load()}
	if at := g.harvested.Load(); g.Through != nil {
		s.Through = g.Through()
	} else if at != 0 {
		s.Through = time.UnixMilli(at)
	}
	return s
}

// Archive writes dead records to the archive, and returns nil when they are durable. It is
// safe for concurrent use. Errors: those of Writer.Write.
func (g *Archiver) Archive(ctx context.Context, dead []driver.Dead) error {
	batch := make([]Record, len(dead))
	for i := range dead {
		d := &dead[i]
		r := &batch[i]
		*r = Record{
			Key:       d.Key,
			CreatedAt: d.CreatedAt,
			ExpiredAt: max(d.At, d.CreatedAt), // a life may be ended with an expiry before it began
			Reason:    g.reason(d),
			Format:    d.Format,
			Value:     d.Value,
			Problem:   d.Problem,
		}
		if latest := g.Writer.latest(g.Writer.opts.Now()); d.CreatedAt > latest && d.At <= latest && r.Problem == nil {
			r.Problem = &driver.InvalidError{Field: "Record.CreatedAt", Value: strconv.FormatInt(int64(d.CreatedAt), 10), Rule: "must not be ahead of the clock"}
		}
		if r.Problem != nil {
			r.ExpiredAt = d.At
		}
	}
	return g.Writer.write(ctx, g.Source, batch, &g.counts)
}

func (g *Archiver) reason(d *driver.Dead) Reason {
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
