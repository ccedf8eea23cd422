package sql

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// SweepOptions adjusts a Sweeper. The zero value, and a nil pointer, mean the defaults.
type SweepOptions struct {
	// Every is how long Run waits when nothing is left to do, varied by half, so that many sweepers
	// do not run at once. Zero: 1 min.
	Every time.Duration

	// Batch is the most rows in one transaction. Zero: 1000. At most 10,000; if the key has several columns 4096, 2048 from 8 on, 1024 from 16 on. One call of Bury gets
	// values of about 16 MiB at most: the last one is always whole.
	Batch int

	// Rate limits this sweeper to so many rows a second, dead or alive. Zero: no limit.
	Rate float64

	// Bury is called with the dead rows of each transaction, without their Fields, before they are
	// deleted in it. A row has a Problem if no record can have its key, or if only the expiry of
	// its life can be read. Bury may use tx, for instance for an archive table. If Bury fails,
	// nothing is deleted and the rows come again. They also come again if the transaction fails
	// after it, for instance by a deadlock with another sweeper: work done by tx is then rolled
	// back, work done by other means is done twice. Bury may be called again before it has
	// returned. Nil: dead rows are deleted without a call.
	Bury func(ctx context.Context, tx *stdsql.Tx, dead []driver.Dead) error

	// OnError is called with the error of a sweep under Run, which continues after Every, and with
	// an error if rows were skipped. Nil: they are only counted.
	OnError func(error)

	// Now is the clock that decides which rows are dead. Nil: the database's, less Options.MaxSkew.
	Now func() time.Time
}

const (
	defaultEvery = time.Minute
	defaultBatch = 1000
	maxBatch     = 10000
	maxTuples    = 4096     // beyond, PostgreSQL's max_stack_depth ends the statement
	maxArguments = 32766    // SQLite's limit; those of keys are a power of two for each column
	buryBytes    = 16 << 20 // in each of two transactions
)

func (o SweepOptions) validate() (SweepOptions, error) {
	err := cmp.Or(atLeast0("SweepOptions.Every", o.Every), atLeast0("SweepOptions.Batch", o.Batch),
		atLeast0("SweepOptions.Rate", o.Rate))
	if err == nil && o.Batch > maxBatch {
		err = &driver.InvalidError{Field: "SweepOptions.Batch", Value: fmt.Sprint(o.Batch), Rule: fmt.Sprintf("must be at most %d", maxBatch)}
	}
	o.Every, o.Batch = cmp.Or(o.Every, defaultEvery), cmp.Or(o.Batch, defaultBatch)
	return o, err
}

// atLeast0 returns an error if field's value n is negative.
func atLeast0[N int | float64 | time.Duration](field string, n N) error {
	if n < 0 {
		return &driver.InvalidError{Field: field, Value: fmt.Sprint(n), Rule: "must not be negative"}
	}
	return nil
}

// Sweeper deletes rows that have been dead for Options.Retain. Any number of sweepers may work on a
// table, in any number of processes: each takes rows that no other has; on SQLite they take turns.
// Its methods are safe for concurrent use.
type Sweeper struct {
	table   *table
	opts    SweepOptions
	limit   *rate.Limiter
	bytes   int // limit on a batch's values for Bury
	held    heldRows
	deletes atomic.Int64 // rows of the table that this sweep has deleted, maxHeld at most, less those that it has put off for that
	counts  struct{ deleted, filed, skipped, failed atomic.Uint64 }
	swept   atomic.Int64 // start of the last successful sweep, in milliseconds; zero: none
}

// Sweeper returns a sweeper of the table. opts may be nil; it is copied.
func (t *table) Sweeper(opts *SweepOptions) (*Sweeper, error) {
	o, err := driver.Given(opts).validate()
	columns := len(t.key.Columns)
	if most := min(maxTuples, 1<<(bits.Len(uint(maxArguments/columns))-1)); err == nil && columns > 1 && o.Batch > most {
		err = &driver.InvalidError{Field: "SweepOptions.Batch", Value: fmt.Sprint(o.Batch), Rule: fmt.Sprintf("must be at most %d with a key of %d columns", most, columns)}
	}
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
	Filed   uint64 // rows that are alive or retained, whose sweep_at was set
	Skipped uint64 // rows with an unreadable expiry, or that the table refuses to write or keeps, retried a day later; and those whose deletion a limit on time has ended, retried by the next sweep
	Failed  uint64 // sweeps that ended with an error
}

// Stats returns the counters.
func (s *Sweeper) Stats() SweepStats {
	c := &s.counts
	return SweepStats{Deleted: c.deleted.Load(), Filed: c.filed.Load(), Skipped: c.skipped.Load(), Failed: c.failed.Load()}
}

// Run sweeps until ctx ends, and then returns.
func (s *Sweeper) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			hook.Tell(s.opts.OnError, err)
		}
		_ = driver.Sleep(ctx, s.opts.Every/2+rand.N(s.opts.Every))
	}
}

// Sweep takes all rows whose sweep_at or, if they are retained, whose retention has passed. It returns when it finds no more, or at the first
// error; batches committed before stay.
//
// With Bury it runs two transactions, on two connections if the pool allows: one reads rows while
// Bury runs in the other. No row that lives is locked meanwhile. On SQLite it runs one, and all writers to the file wait
// for Bury.
func (s *Sweeper) Sweep(ctx context.Context) error {
	began := time.Now()
	err := hook.Recover(func() error { return s.sweep(ctx) })
	if err != nil {
		s.counts.failed.Add(1)
	} else {
		s.swept.Store(began.UnixMilli())
	}
	return err
}

// Through is the time up to which this sweeper has taken all due rows, for archive.Archiver.
// It is zero before the first sweep.
func (s *Sweeper) Through() (at time.Time) {
	if swept := s.swept.Load(); swept != 0 {
		at = time.UnixMilli(swept)
	}
	return at
}

func (s *Sweeper) sweep(ctx context.Context) error {
	defer s.held.release()
	s.deletes.Store(0)
	if s.opts.Bury != nil { // Check takes such a trigger from a process that only reads and writes
		desc, err := s.table.dialect.describe(ctx, s.table.db, s.table.schema, s.table.name)
		if err == nil {
			err = s.table.checkUnasked(desc)
		}
		if err != nil {
			return err
		}
	}
	if (s.table.keepReplaced || s.table.keepDeleted) && s.opts.Bury != nil {
		if err := s.batches(ctx, ctx, s.replaced); err != nil {
			return err
		}
	}
	if s.opts.Bury == nil || s.table.turn != nil {
		return s.batches(ctx, ctx, s.rows)
	}
	// If one fails, the other finishes its batch, so that its rows are not buried in vain.
	group, going := errgroup.WithContext(ctx)
	for range 2 {
		group.Go(func() error {
			return hook.Recover(func() error { return s.batches(ctx, going, s.rows) })
		})
	}
	if err := group.Wait(); err != nil && !errors.As(err, new(ofTable)) {
		return err
	}
	return s.batches(ctx, ctx, s.rows) // each may have skipped rows that the other had locked, or missed them where it looked for others
}

// batches runs one transaction after another, until take finds nothing or going ends.
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
			s.limit.ReserveN(time.Now(), n-limit) // return the unused part
		}
		switch {
		// Passed by before, and taken all the same, for its key does not equal itself; or one of many that wait in vain.
		case err == nil && b.refused != nil && (n == 0 || n == b.skipped && s.table.outOfTime(b.refused)):
			if lost++; lost > attempts {
				return b.refused
			}
		case err == nil && b.cut:
			lost, limit = 0, min(2*n, s.opts.Batch) // its other rows are read again
		case err == nil && (b.more || b.refused != nil || n == limit):
			lost, limit = 0, min(2*limit, s.opts.Batch)
		case err == nil:
			return nil
		case errors.As(err, new(undone)) && len(b.keys) > 1, s.table.outOfTime(err) && limit > 1:
			limit = cmp.Or(len(b.keys), limit) / 2 // until the row is alone
		case s.table.dialect.verdict(err).again() && lost < attempts:
			lost++ // lost to another transaction and rolled back
		default:
			return err
		}
	}
	return ctx.Err()
}

// before is the SQL expression for the database's time less behind.
func (t *table) before(behind time.Duration) string {
	return fmt.Sprintf("%s - %d", t.dialect.began(), driver.Instant(0).Add(behind))
}
