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

// skipFor is how long a row is left alone that cannot be read or written.
const skipFor = 24 * time.Hour

// swept is what one transaction did, in rows. cut: there were more than its bytes allow.
type swept struct {
	deleted, filed, skipped int
	cut                     bool
	refused                 error // why rows were skipped that the others are yet to be written without; nil: none was
}

// batch is one transaction, in which take does what it says for limit rows at most.
func (s *Sweeper) batch(ctx context.Context, limit int, take func(context.Context, *stdsql.Tx, int) (swept, error)) (b swept, err error) {
	t := s.table
	tx, err := t.begin(ctx)
	if err != nil {
		return swept{}, err
	}
	defer func() { _ = tx.Rollback() }() // no more than an error once it is committed
	if b, err = take(ctx, tx, limit); err == nil && (b.rows() > 0 || b.refused != nil) {
		if err = tx.Commit(); err == nil {
			s.counts.batches.Add(1)
		}
	}
	if err != nil {
		return swept{}, err
	}
	s.counts.deleted.Add(uint64(b.deleted))
	s.counts.filed.Add(uint64(b.filed))
	s.counts.skipped.Add(uint64(b.skipped))
	if b.skipped > 0 && s.opts.OnError != nil {
		rule := "must have a life that can be read"
		if b.refused != nil {
			rule = "must be one that the table lets be deleted, and be given another " + t.sweep
		}
		s.opts.OnError(&driver.InvalidError{Field: "row", Value: fmt.Sprintf("skipped, %d times", b.skipped), Rule: rule, Err: b.refused})
	}
	return b, nil
}

func (b swept) rows() int { return b.deleted + b.filed + b.skipped }

// rows deletes what is dead of the rows whose time has come, and files the others.
func (s *Sweeper) rows(ctx context.Context, tx *stdsql.Tx, limit int) (b swept, err error) {
	t := s.table
	rows, err := s.take(ctx, tx, limit)
	if b = (swept{deleted: len(rows.dead), filed: len(rows.live), skipped: len(rows.skipped), cut: rows.cut}); err != nil || b.rows() == 0 {
		return b, err
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT taken"); err != nil {
		return b, err
	}
	if len(rows.buried) > 0 {
		if err := s.opts.Bury(ctx, tx, rows.buried); err != nil {
			return b, err
		}
	}
	written := int64(0)
	for _, w := range s.writes(rows) {
		n, err := t.sweepRows(ctx, tx, w)
		if refusesRow(t.dialect.verdict(err)) {
			return s.passBy(ctx, tx, rows, err)
		} else if err != nil {
			return b, err
		}
		written += n
	}
	if written == 0 {
		return b, &driver.InvalidError{Field: "key", Value: "not found again", Rule: "must not be NULL, and equal to itself"}
	}
	return b, nil
}

// begin opens a transaction that writes.
func (t *table) begin(ctx context.Context) (*stdsql.Tx, error) {
	tx, err := t.db.BeginTx(ctx, &stdsql.TxOptions{Isolation: t.dialect.isolation()})
	if begin := t.dialect.begin(t.quoted(), t.dialect.quote(t.sweep)); err == nil && begin != "" {
		if _, err = tx.ExecContext(ctx, begin); err != nil {
			_ = tx.Rollback()
		}
	}
	return tx, err
}

// horizon is the time before which a row must have expired, and its argument.
func (s *Sweeper) horizon() (expression string, arg any) {
	if s.opts.Now != nil {
		arg = int64(driver.Floor(s.opts.Now()).Add(-s.table.retain))
	}
	return "COALESCE(" + s.table.dialect.integer() + ", " + s.table.horizon(s.opts.MaxSkew) + ")", arg
}

// query is what take asks of rows that are not held, and its arguments.
func (s *Sweeper) query(limit int, held []rowKey) (query string, args []any) {
	t := s.table
	q := t.dialect.quote
	horizon, now := s.horizon()
	args = []any{now, now}
	columns := append([]string{horizon}, t.keyColumns()...)
	columns = append(columns, t.createdMillis(), t.expiresMillis(), q(t.version))
	if s.opts.Bury != nil {
		columns = append(columns, t.rawValue())
	}
	// It is to walk the index: the column is the table's and not the text of that name
	// that is selected, and the limit is no argument, of which PostgreSQL thinks as a
	// tenth of all rows.
	sweep := t.quoted() + "." + q(t.sweep)
	but := ""
	if len(held) > 0 {
		list, more := t.keyList(held)
		but, args = " AND NOT ("+t.keyTuple()+" IN "+list+")", append(args, t.keyArgs(more)...)
	}
	return t.dialect.bind(t.dialect.take(strings.Join(columns, ", "),
		fmt.Sprintf(" FROM %s WHERE %s <= %s%s ORDER BY %[2]s LIMIT %[5]d", t.quoted(), sweep, horizon, but, limit))), args
}

// taken are rows that are locked, by the columns of their keys as they were scanned.
type taken struct {
	dead, live, skipped []rowKey
	buried              []driver.Dead // those of dead, for Bury
	cut                 bool          // as of swept
}

// take locks rows whose sweep_at has come, and tells the dead from the others.
func (s *Sweeper) take(ctx context.Context, tx *stdsql.Tx, limit int) (r taken, err error) {
	t := s.table
	query, args := s.query(limit, s.held.now())
	rows, err := tx.QueryContext(ctx, query, args...)
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
	for bytes := 0; !r.cut && rows.Next(); r.cut = bytes >= s.bytes {
		if err := rows.Scan(dest...); err != nil {
			return r, misshapen[driver.Dead](err)
		}
		k, meta, odd := rowKey{columns: slices.Clone(key.args)}, l.meta(), t.odd(&l)
		switch {
		case odd != nil && (s.opts.Bury == nil || meta.Alive(horizon)):
			r.skipped = append(r.skipped, k)
		case meta.Alive(horizon):
			r.live = append(r.live, k)
		default:
			r.dead = append(r.dead, k)
			if s.opts.Bury != nil {
				r.buried = append(r.buried, t.dead(key, meta, value, odd))
				bytes += len(value)
			}
		}
	}
	return r, rows.Err()
}

// dead is a row as Bury is handed it.
func (t *table) dead(key scannedKey, m driver.Meta, value []byte, problem error) driver.Dead {
	name := t.key.Join(key.texts)
	if _, err := t.key.row(name, 0); problem == nil {
		problem = err
	}
	return driver.Dead{Key: name, Raw: driver.Raw{Meta: m, Format: "json", Value: value, Problem: problem}, At: m.ExpiresAt}
}

// rowsWrite is a statement on the rows of keys.
type rowsWrite struct {
	statement string // without its WHERE
	args      []any
	keys      []rowKey
}

// writes are those of a batch.
func (s *Sweeper) writes(rows taken) []rowsWrite {
	t := s.table
	return []rowsWrite{
		{"DELETE FROM " + t.quoted(), nil, rows.dead},
		{fmt.Sprintf("UPDATE %s SET %s = COALESCE(%s, %d)", t.quoted(), t.dialect.quote(t.sweep), t.expiresOrNone(), never), nil, rows.live},
		s.skip(rows.skipped),
	}
}

// skip has rows be looked at a day later.
func (s *Sweeper) skip(keys []rowKey) rowsWrite {
	t := s.table
	horizon, now := s.horizon()
	return rowsWrite{fmt.Sprintf("UPDATE %s SET %s = %s + %d", t.quoted(), t.dialect.quote(t.sweep), horizon,
		driver.Instant(0).Add(t.retain+s.opts.MaxSkew+skipFor)), []any{now}, keys}
}

// sweepRows carries w out, and says on how many.
func (t *table) sweepRows(ctx context.Context, tx *stdsql.Tx, w rowsWrite) (int64, error) {
	if len(w.keys) == 0 {
		return 0, nil
	}
	list, columns := t.keyList(w.keys)
	result, err := tx.ExecContext(ctx, t.dialect.bind(w.statement+" WHERE "+t.keyTuple()+" IN "+list), slices.Concat(w.args, t.keyArgs(columns))...)
	if err != nil {
		return 0, hidden(err, w.keys)
	}
	return result.RowsAffected()
}
