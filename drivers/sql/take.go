package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// batch is one transaction. It returns how many rows it took.
func (s *Sweeper) batch(ctx context.Context, horizon driver.Instant) (taken int, err error) {
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

// begin is the statement that makes a transaction one that writes, alone. Empty: it needs none.
func (t *table) begin() string { return t.dialect.begin(t.quoted(), t.dialect.quote(t.sweep)) }

// query is what take asks.
func (s *Sweeper) query() string {
	t := s.table
	q := t.dialect.quote
	columns := append(t.keyColumns(), t.createdMillis(), t.expiresMillis(), q(t.version))
	if s.opts.Bury != nil {
		columns = append(columns, t.rawValue())
	}
	// It is to walk the index: the column is the table's and not the text of that name
	// that is selected, and the limit is no argument, of which PostgreSQL thinks as a
	// tenth of all rows.
	sweep := t.quoted() + "." + q(t.sweep)
	return t.dialect.bind(t.dialect.take(strings.Join(columns, ", "),
		fmt.Sprintf(" FROM %s WHERE %s <= ? ORDER BY %s LIMIT %d", t.quoted(), sweep, sweep, s.opts.Batch)))
}

// take locks rows whose sweep_at has come, and tells the dead from the others.
func (s *Sweeper) take(ctx context.Context, tx *stdsql.Tx, horizon driver.Instant) (dead []driver.Dead, deadKeys, liveKeys []rowKey, err error) {
	t := s.table
	rows, err := tx.QueryContext(ctx, s.query(), int64(horizon))
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	joined := newJoined(len(t.key.Columns))
	var l life
	var value text
	dest := append(joined.dest(), l.dest()...)
	if s.opts.Bury != nil {
		dest = append(dest, &value)
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, nil, nil, misshapen[driver.Dead](err)
		}
		key := t.key.Join(joined)
		k, err := t.key.row(key, 0)
		if err != nil {
			return nil, nil, nil, err
		}
		meta := l.meta()
		if t.odd(&l) != nil || meta.Alive(horizon) {
			liveKeys = append(liveKeys, k)
			continue
		}
		deadKeys = append(deadKeys, k)
		if s.opts.Bury == nil {
			continue
		}
		if dead == nil {
			dead = make([]driver.Dead, 0, s.opts.Batch)
		}
		dead = append(dead, driver.Dead{Key: key, Raw: driver.Raw{Meta: meta, Format: "json", Value: value.bytes}, At: meta.ExpiresAt})
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
