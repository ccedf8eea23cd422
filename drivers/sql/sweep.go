package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// SweepOptions adjusts a Sweeper. The zero value, and a nil pointer, mean the defaults.
type SweepOptions struct {
	// Every is how long Run waits when nothing is left to do, give or take a half,
	// so that many sweepers do not come at once. Zero: 1 min.
	Every time.Duration

	// Batch is how many rows one transaction takes. Zero: 1000. At most 10,000.
	Batch int

	// Rate is how many rows a second this sweeper takes, dead or to be filed. Zero:
	// as many as it can.
	Rate float64

	// Bury is handed the dead rows of each transaction before they are deleted in
	// it. It may use tx, as for an archive in a table beside. If it fails nothing is
	// deleted, and the rows come again. They come again, too, where the transaction
	// fails after it, and that may be a deadlock with another sweeper: what is done
	// by tx is then undone, and what is done by other means is done twice. Nil: they
	// go unseen.
	Bury func(ctx context.Context, tx *stdsql.Tx, dead []driver.Dead) error

	// OnError is told what a sweep under Run failed with. Run goes on after Every.
	// Nil: it is counted and not told.
	OnError func(error)

	// Now is the time by which rows are dead. Nil: the database's.
	Now func() time.Time
}

const (
	defaultEvery = time.Minute
	defaultBatch = 1000
	maxBatch     = 10000
)

func (o SweepOptions) validate() (SweepOptions, error) {
	for _, f := range []struct {
		field    string
		value    any
		negative bool
	}{
		{"Every", o.Every, o.Every < 0}, {"Batch", o.Batch, o.Batch < 0},
		{"Rate", o.Rate, o.Rate < 0},
	} {
		if f.negative {
			return o, &driver.InvalidError{Field: "SweepOptions." + f.field, Value: fmt.Sprint(f.value), Rule: "must not be negative"}
		}
	}
	if o.Batch > maxBatch {
		return o, &driver.InvalidError{Field: "SweepOptions.Batch", Value: fmt.Sprint(o.Batch), Rule: fmt.Sprintf("must be at most %d", maxBatch)}
	}
	if o.Every == 0 {
		o.Every = defaultEvery
	}
	if o.Batch == 0 {
		o.Batch = defaultBatch
	}
	return o, nil
}

// Sweeper deletes the rows that are dead for Options.Retain. Any number of them may work on a table, in any number of
// processes: each takes rows that no other has, on SQLite one after the other. Its
// methods are safe for concurrent use.
type Sweeper struct {
	table  *table
	opts   SweepOptions
	limit  *rate.Limiter
	counts struct{ deleted, filed, batches, failed atomic.Uint64 }
}

// Sweeper returns a sweeper of the table. opts may be nil; it is copied.
func (t *table) Sweeper(opts *SweepOptions) (*Sweeper, error) {
	var o SweepOptions
	if opts != nil {
		o = *opts
	}
	o, err := o.validate()
	if err != nil {
		return nil, err
	}
	s := &Sweeper{table: t, opts: o}
	if o.Rate > 0 {
		s.limit = rate.NewLimiter(rate.Limit(o.Rate), o.Batch)
	}
	return s, nil
}

// SweepStats counts what a Sweeper has done since it was made.
type SweepStats struct {
	Deleted uint64 // dead rows
	Filed   uint64 // rows that were alive, and are looked at again at their expiry
	Batches uint64 // transactions
	Failed  uint64 // sweeps that ended with an error
}

// Stats returns the counters.
func (s *Sweeper) Stats() SweepStats {
	c := &s.counts
	return SweepStats{Deleted: c.deleted.Load(), Filed: c.filed.Load(), Batches: c.batches.Load(), Failed: c.failed.Load()}
}

// Run sweeps until ctx ends, and then returns.
func (s *Sweeper) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil && s.opts.OnError != nil {
			s.opts.OnError(err)
		}
		pause := time.NewTimer(s.opts.Every/2 + rand.N(s.opts.Every))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// Sweep takes all rows whose time has come, and returns when it finds no more, or at the
// first error. What was done until then stays done.
func (s *Sweeper) Sweep(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			s.counts.failed.Add(1)
		}
	}()
	for lost := 0; ; {
		if s.limit != nil {
			if err := s.limit.WaitN(ctx, s.opts.Batch); err != nil {
				return err
			}
		}
		horizon, err := s.horizon(ctx)
		if err != nil {
			return err
		}
		taken, err := s.batch(ctx, horizon)
		if s.limit != nil && taken < s.opts.Batch {
			s.limit.ReserveN(time.Now(), taken-s.opts.Batch) // what was not taken
		}
		switch {
		case err == nil:
			lost = 0
			if taken < s.opts.Batch {
				return nil
			}
		case s.table.dialect.verdict(err) == collided && lost < attempts:
			lost++ // to another transaction, and undone
		default:
			return err
		}
	}
}

// horizon is the time before which a row must have expired to be deleted.
func (s *Sweeper) horizon(ctx context.Context) (driver.Instant, error) {
	var now time.Time
	if s.opts.Now != nil {
		now = s.opts.Now()
	} else {
		if s.table.clock.due() {
			if err := s.table.ask(ctx); err != nil {
				return 0, err
			}
		}
		now = s.table.Now()
	}
	return driver.Floor(now).Add(-s.table.retain), nil
}

// batch is one transaction. It returns how many rows it took.
func (s *Sweeper) batch(ctx context.Context, horizon driver.Instant) (taken int, err error) {
	t := s.table
	tx, err := t.db.BeginTx(ctx, &stdsql.TxOptions{Isolation: t.dialect.isolation()})
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // no more than an error once it is committed
	if begin := t.dialect.begin(t.quoted(), t.dialect.quote(t.sweep)); begin != "" {
		if _, err := tx.ExecContext(ctx, begin); err != nil {
			return 0, err
		}
	}
	dead, deadKeys, liveKeys, err := s.take(ctx, tx, horizon)
	if err != nil {
		return 0, err
	}
	taken = len(deadKeys) + len(liveKeys)
	if taken == 0 {
		return 0, nil
	}
	if s.opts.Bury != nil && len(dead) > 0 {
		if err := s.opts.Bury(ctx, tx, dead); err != nil {
			return 0, err
		}
	}
	if err := t.sweepRows(ctx, tx, "DELETE FROM "+t.quoted(), deadKeys); err != nil {
		return 0, err
	}
	file := fmt.Sprintf("UPDATE %s SET %s = COALESCE(%s, %d)", t.quoted(), t.dialect.quote(t.sweep), t.expiresOrNone(), never)
	if err := t.sweepRows(ctx, tx, file, liveKeys); err != nil {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	s.counts.batches.Add(1)
	s.counts.deleted.Add(uint64(len(deadKeys)))
	s.counts.filed.Add(uint64(len(liveKeys)))
	return taken, nil
}

// query is what take asks.
func (s *Sweeper) query() string {
	t := s.table
	q := t.dialect.quote
	columns := append(t.keyColumns(), t.createdMillis(), t.expiresMillis(), q(t.version))
	if s.opts.Bury != nil {
		columns = append(columns, t.rawColumns()...)
	}
	// It is to walk the index: the column is the table's and not the text of that name
	// that is selected, and the limit is no argument, of which PostgreSQL thinks as a
	// tenth of all rows.
	sweep := t.quoted() + "." + q(t.sweep)
	return t.dialect.bind(fmt.Sprintf("SELECT %s FROM %s WHERE %s <= ? ORDER BY %s LIMIT %d%s",
		strings.Join(columns, ", "), t.quoted(), sweep, sweep, s.opts.Batch, t.dialect.lock()))
}

// take locks rows whose sweep_at has come, and tells the dead from the others.
func (s *Sweeper) take(ctx context.Context, tx *stdsql.Tx, horizon driver.Instant) (dead []driver.Dead, deadKeys, liveKeys []rowKey, err error) {
	t := s.table
	rows, err := tx.QueryContext(ctx, s.query(), int64(horizon))
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		joined := newJoined(len(t.key.Columns))
		var r rawRow
		dest := append(joined.dest(), r.life.dest()...)
		if s.opts.Bury != nil {
			dest = append(joined.dest(), r.dest()...)
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, nil, nil, misshapen[driver.Dead](err)
		}
		key := t.key.Join(joined)
		k, err := t.key.row(key, 0)
		if err != nil {
			return nil, nil, nil, err
		}
		raw := t.rawOf(&r)
		if raw.Problem != nil || raw.Alive(horizon) {
			liveKeys = append(liveKeys, k)
			continue
		}
		deadKeys = append(deadKeys, k)
		if s.opts.Bury != nil {
			dead = append(dead, driver.Dead{Key: key, Raw: raw, At: raw.ExpiresAt})
		}
	}
	return dead, deadKeys, liveKeys, rows.Err()
}

// sweepRows carries out a statement on rows.
func (t *table) sweepRows(ctx context.Context, tx *stdsql.Tx, statement string, keys []rowKey) error {
	if len(keys) == 0 {
		return nil
	}
	list, args := t.keyList(keys)
	_, err := tx.ExecContext(ctx, t.dialect.bind(statement+" WHERE "+t.keyTuple()+" IN "+list), args...)
	if err != nil {
		return hidden(err, keys)
	}
	return nil
}

// Backlog is what a table's sweepers have before them.
type Backlog struct {
	Dead   int64          // rows that expired longer than Options.Retain ago and are still there
	Oldest driver.Instant // when the first of them expired; zero: there is none
}

// Backlog counts the dead rows that are not retained, by the database's time, and finds
// the oldest. It reads all of them.
func (t *table) Backlog(ctx context.Context) (Backlog, error) {
	if err := t.ask(ctx); err != nil {
		return Backlog{}, err
	}
	expires := t.expiresMillis()
	query := "SELECT COUNT(*), COALESCE(MIN(" + expires + "), 0) FROM " + t.quoted() +
		" WHERE " + t.dialect.quote(t.sweep) + " <= ? AND " + expires + " <> 0 AND " + expires + " <= ?"
	now := int64(driver.Floor(t.Now()).Add(-t.retain))
	var b Backlog
	_, shape, err := firstRow(ctx, t.db, t.dialect.bind(query), []any{now, now}, []any{&b.Dead, &b.Oldest})
	if err == nil && shape != nil {
		err = misshapen[Backlog](shape)
	}
	return b, err
}
