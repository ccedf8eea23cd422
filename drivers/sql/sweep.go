package sql

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// SweepOptions adjusts a Sweeper. The zero value, and a nil pointer, mean the defaults.
type SweepOptions struct {
	// Every is how long Run waits when nothing is left to do, give or take a half,
	// so that many sweepers do not come at once. Zero: 1 min.
	Every time.Duration

	// Batch is how many rows one transaction takes. Zero: 1000. At most 10,000. Bury is
	// handed 16 MiB of values at most at once, and the last of them whole.
	Batch int

	// Rate is how many rows a second this sweeper takes, dead or to be filed. Zero:
	// as many as it can.
	Rate float64

	// Bury is handed the dead rows of each transaction before they are deleted in
	// it, without their Fields. A row whose key no record can have, or of whose life no more than
	// the expiry can be read, has a Problem. It may use tx, as for an archive in a table beside. If it fails nothing is
	// deleted, and the rows come again. They come again, too, where the transaction
	// fails after it, and that may be a deadlock with another sweeper: what is done
	// by tx is then undone, and what is done by other means is done twice. It may be
	// called again before it has returned. Nil: they go unseen.
	Bury func(ctx context.Context, tx *stdsql.Tx, dead []driver.Dead) error

	// OnError is told what a sweep under Run failed with, which goes on after Every, and
	// that rows were skipped. Nil: that is counted and not told.
	OnError func(error)

	// MaxSkew is how much longer than Options.Retain rows are dead, by the database's clock,
	// before they are deleted: for processes that have not learned that clock yet. Zero: 1 min.
	MaxSkew time.Duration

	// Now is the time by which rows are dead, MaxSkew or not. Nil: the database's.
	Now func() time.Time
}

const (
	defaultEvery = time.Minute
	defaultBatch = 1000
	maxBatch     = 10000
	buryBytes    = 16 << 20 // of each of two transactions
)

func (o SweepOptions) validate() (SweepOptions, error) {
	err := cmp.Or(atLeast0("SweepOptions.Every", o.Every), atLeast0("SweepOptions.Batch", o.Batch),
		atLeast0("SweepOptions.Rate", o.Rate), atLeast0("SweepOptions.MaxSkew", o.MaxSkew))
	if err == nil && o.Batch > maxBatch {
		err = &driver.InvalidError{Field: "SweepOptions.Batch", Value: fmt.Sprint(o.Batch), Rule: fmt.Sprintf("must be at most %d", maxBatch)}
	}
	o.Every, o.Batch, o.MaxSkew = cmp.Or(o.Every, defaultEvery), cmp.Or(o.Batch, defaultBatch), cmp.Or(o.MaxSkew, defaultMaxSkew)
	return o, err
}

// atLeast0 returns an error if n, which field has, is negative.
func atLeast0[N int | float64 | time.Duration](field string, n N) error {
	if n < 0 {
		return &driver.InvalidError{Field: field, Value: fmt.Sprint(n), Rule: "must not be negative"}
	}
	return nil
}

// Sweeper deletes the rows that are dead for Options.Retain. Any number of them may work on a table, in any number of
// processes: each takes rows that no other has, on SQLite one after the other. Its
// methods are safe for concurrent use.
type Sweeper struct {
	table  *table
	opts   SweepOptions
	limit  *rate.Limiter
	bytes  int // bounds the values of a batch for Bury
	held   heldRows
	counts struct{ deleted, filed, skipped, batches, failed atomic.Uint64 }
	swept  atomic.Int64 // when the last sweep began that ended well, in milliseconds; zero: none
}

// Sweeper returns a sweeper of the table. opts may be nil; it is copied.
func (t *table) Sweeper(opts *SweepOptions) (*Sweeper, error) {
	o, err := driver.Given(opts).validate()
	if err != nil {
		return nil, err
	}
	s := &Sweeper{table: t, opts: o, bytes: buryBytes}
	if o.Rate > 0 {
		s.limit = rate.NewLimiter(rate.Limit(o.Rate), o.Batch)
	}
	return s, nil
}

// SweepStats counts what a Sweeper has done since it was made.
type SweepStats struct {
	Deleted uint64 // dead rows
	Filed   uint64 // rows that were alive, and are looked at again at their expiry
	Skipped uint64 // rows whose expiry cannot be read, or that the table does not let be written; they are looked at again a day later
	Batches uint64 // of one transaction each, or one statement each for the dead and the others
	Failed  uint64 // sweeps that ended with an error
}

// Stats returns the counters.
func (s *Sweeper) Stats() SweepStats {
	c := &s.counts
	return SweepStats{Deleted: c.deleted.Load(), Filed: c.filed.Load(), Skipped: c.skipped.Load(), Batches: c.batches.Load(), Failed: c.failed.Load()}
}

// Run sweeps until ctx ends, and then returns.
func (s *Sweeper) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil && s.opts.OnError != nil {
			s.opts.OnError(err)
		}
		_ = driver.Sleep(ctx, s.opts.Every/2+rand.N(s.opts.Every))
	}
}

// Sweep takes all rows whose time has come, and returns when it finds no more, or at the
// first error. What was done until then stays done.
//
// With Bury it has two transactions at work, on two connections if there are so many: one
// reads the next rows while those of the other are buried. On SQLite it has one.
func (s *Sweeper) Sweep(ctx context.Context) error {
	began := time.Now()
	err := s.sweep(ctx)
	if err != nil {
		s.counts.failed.Add(1)
	} else {
		s.swept.Store(began.UnixMilli())
	}
	return err
}

// Through is the time up to which this sweeper has taken all due rows, for archive.Grave.
// It is zero before the first sweep.
func (s *Sweeper) Through() (at time.Time) {
	if swept := s.swept.Load(); swept != 0 {
		at = time.UnixMilli(swept)
	}
	return at
}

func (s *Sweeper) sweep(ctx context.Context) error {
	if (s.table.keepReplaced || s.table.keepDeleted) && s.opts.Bury != nil {
		if err := s.batches(ctx, ctx, s.replaced); err != nil {
			return err
		}
	}
	if s.opts.Bury == nil || s.table.turn != nil {
		return s.batches(ctx, ctx, s.rows)
	}
	// When one fails the other ends what it has begun, lest that be buried in vain.
	group, going := errgroup.WithContext(ctx)
	for range 2 {
		group.Go(func() error { return s.batches(ctx, going, s.rows) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.batches(ctx, ctx, s.rows) // each may have left a row that the other had locked
}

// batches is one transaction after the other, until there is nothing left for take or going
// ends.
func (s *Sweeper) batches(ctx, going context.Context, take takeRows) error {
	limit := s.opts.Batch
	for lost := 0; going.Err() == nil; {
		if s.limit != nil {
			if err := s.limit.WaitN(going, limit); err != nil {
				return err
			}
		}
		b, err := s.batch(ctx, limit, take)
		n := b.rows()
		if s.limit != nil {
			s.limit.ReserveN(time.Now(), n-limit) // what was not taken
		}
		switch {
		case err == nil && (b.more || b.refused != nil):
			lost = 0
		case err == nil && n < limit && !b.cut:
			return nil
		case err == nil:
			lost, limit = 0, min(2*n, s.opts.Batch) // what is cut off is read again
		case s.table.dialect.verdict(err) == collided && lost < attempts:
			lost++ // to another transaction, and undone
		default:
			return err
		}
	}
	return ctx.Err()
}

// horizon is the expression of the time before which a row must have expired to be deleted, by the
// database's clock less behind.
func (t *table) horizon(behind time.Duration) string {
	return fmt.Sprintf("%s - %d", t.dialect.began(), driver.Instant(0).Add(t.retain+behind))
}
