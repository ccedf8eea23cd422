package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// skipFor is how long a row that cannot be read, or not be named, is left alone.
const skipFor = 24 * time.Hour

// batch is one transaction. It returns how many rows it took.
func (s *Sweeper) batch(ctx context.Context) (taken int, err error) {
	t := s.table
	tx, err := t.db.BeginTx(ctx, &stdsql.TxOptions{Isolation: t.dialect.isolation()})
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // no more than an error once it is committed
	if begin := t.begin(); begin != "" {
		if _, err := tx.ExecContext(ctx, begin); err != nil {
			return 0, err
		}
	}
	rows, err := s.take(ctx, tx)
	if err != nil {
		return 0, err
	}
	if s.opts.Bury != nil && len(rows.buried) > 0 {
		if err := s.opts.Bury(ctx, tx, rows.buried); err != nil {
			return 0, err
		}
	}
	file := fmt.Sprintf("UPDATE %s SET %s = ", t.quoted(), t.dialect.quote(t.sweep))
	written := int64(0)
	horizon, now := s.horizon()
	for _, write := range []struct {
		statement string
		keys      []rowKey
		args      []any
	}{
		{"DELETE FROM " + t.quoted(), rows.dead, nil},
		{file + fmt.Sprintf("COALESCE(%s, %d)", t.expiresOrNone(), never), rows.live, nil},
		{file + fmt.Sprintf("%s + %d", horizon, driver.Instant(0).Add(t.retain+s.opts.MaxSkew+skipFor)), rows.skipped, []any{now}},
	} {
		n, err := t.sweepRows(ctx, tx, write.statement, write.keys, write.args)
		if err != nil {
			return 0, err
		}
		written += n
	}
	if taken = len(rows.dead) + len(rows.live) + len(rows.skipped); taken > 0 && written == 0 {
		return 0, &driver.InvalidError{Field: "key", Value: "not found again", Rule: "must not be NULL, and equal to itself"}
	}
	if err := tx.Commit(); err != nil || taken == 0 {
		return 0, err
	}
	s.counts.batches.Add(1)
	s.counts.deleted.Add(uint64(len(rows.dead)))
	s.counts.filed.Add(uint64(len(rows.live)))
	s.counts.skipped.Add(uint64(len(rows.skipped)))
	if len(rows.skipped) > 0 && s.opts.OnError != nil {
		s.opts.OnError(&driver.InvalidError{Field: "row", Value: fmt.Sprintf("skipped, %d times", len(rows.skipped)), Rule: "must have a key and a life that can be read"})
	}
	return taken, nil
}

// begin is the statement that makes a transaction one that writes, alone. Empty: it needs none.
func (t *table) begin() string { return t.dialect.begin(t.quoted(), t.dialect.quote(t.sweep)) }

// horizon is the time before which a row must have expired, and its argument.
func (s *Sweeper) horizon() (expression string, arg any) {
	if s.opts.Now != nil {
		arg = int64(driver.Floor(s.opts.Now()).Add(-s.table.retain))
	}
	return "COALESCE(" + s.table.dialect.integer() + ", " + s.table.horizon(s.opts.MaxSkew) + ")", arg
}

// query is what take asks.
func (s *Sweeper) query() string {
	t := s.table
	q := t.dialect.quote
	horizon, _ := s.horizon()
	columns := append([]string{horizon}, t.keyColumns()...)
	columns = append(columns, t.createdMillis(), t.expiresMillis(), q(t.version))
	if s.opts.Bury != nil {
		columns = append(columns, t.rawValue())
	}
	// It is to walk the index: the column is the table's and not the text of that name
	// that is selected, and the limit is no argument, of which PostgreSQL thinks as a
	// tenth of all rows.
	sweep := t.quoted() + "." + q(t.sweep)
	return t.dialect.bind(t.dialect.take(strings.Join(columns, ", "),
		fmt.Sprintf(" FROM %s WHERE %s <= %s ORDER BY %s LIMIT %d", t.quoted(), sweep, horizon, sweep, s.opts.Batch)))
}

// taken are rows that are locked, by the columns of their keys as they were scanned.
type taken struct {
	dead, live, skipped []rowKey
	buried              []driver.Dead // those of dead, for Bury
}

// take locks rows whose sweep_at has come, and tells the dead from the others.
func (s *Sweeper) take(ctx context.Context, tx *stdsql.Tx) (r taken, err error) {
	t := s.table
	_, now := s.horizon()
	rows, err := tx.QueryContext(ctx, s.query(), now, now)
	if err != nil {
		return r, err
	}
	defer func() { _ = rows.Close() }()
	var horizon driver.Instant
	var l life
	var value []byte
	key := newScannedKey(len(t.key.Columns))
	dest := append(append([]any{&horizon}, key.dest()...), l.dest()...)
	if s.opts.Bury != nil {
		dest = append(dest, &value)
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return r, misshapen[driver.Dead](err)
		}
		k, meta := rowKey{columns: slices.Clone(key.args)}, l.meta()
		switch {
		case t.odd(&l) != nil:
			r.skipped = append(r.skipped, k)
		case meta.Alive(horizon):
			r.live = append(r.live, k)
		case s.opts.Bury == nil:
			r.dead = append(r.dead, k)
		default:
			name := t.key.Join(key.texts)
			if _, err := t.key.row(name, 0); err != nil {
				r.skipped = append(r.skipped, k)
				continue
			}
			if r.buried == nil {
				r.buried = make([]driver.Dead, 0, s.opts.Batch)
			}
			r.dead = append(r.dead, k)
			r.buried = append(r.buried, driver.Dead{Key: name, Raw: driver.Raw{Meta: meta, Format: "json", Value: value}, At: meta.ExpiresAt})
		}
	}
	return r, rows.Err()
}

// sweepRows carries out a statement on rows, and says on how many.
func (t *table) sweepRows(ctx context.Context, tx *stdsql.Tx, statement string, keys []rowKey, args []any) (int64, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	list, columns := t.keyList(keys)
	result, err := tx.ExecContext(ctx, t.dialect.bind(statement+" WHERE "+t.keyTuple()+" IN "+list), append(args, t.keyArgs(columns)...)...)
	if err != nil {
		return 0, hidden(err, keys)
	}
	return result.RowsAffected()
}
