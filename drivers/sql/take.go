package sql

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// skipFor is how long a row that cannot be read or written is skipped.
const skipFor = 24 * time.Hour

// swept counts a batch's rows. cut: it reached its limit in bytes.
type swept struct {
	keys                    []rowKey // of all rows taken, also if the transaction fails
	dead                    []rowKey // not locked any more: they are to be taken again, without the living
	deleted, filed, skipped int
	cut                     bool
	more                    bool  // there may be more rows
	refused                 error // why rows were skipped; the rest of the batch must run again without them
}

func (b swept) rows() int { return b.deleted + b.filed + b.skipped }

// batch runs take for at most limit rows, and counts. Without Bury it comes after unseen, for the rows that this has
// left.
func (s *Sweeper) batch(ctx context.Context, limit int, take takeRows) (b swept, err error) {
	if s.opts.Bury == nil && s.table.dialect.some("", "") != "" {
		b = s.unseen(ctx, limit)
	}
	if b.rows() < limit {
		if err = s.attempt(ctx, limit, take, &b); err == nil && len(b.dead) > 0 && b.refused == nil {
			err = s.attempt(ctx, limit, s.again(b.dead), &b)
			if b.rows() == 0 && b.refused == nil { // others have them all, or their keys do not find them
				b.refused = errKept
			}
		}
	}
	s.counts.deleted.Add(uint64(b.deleted))
	s.counts.filed.Add(uint64(b.filed))
	s.counts.skipped.Add(uint64(b.skipped))
	if b.skipped > 0 {
		rule := "must have an expiry that can be read, and a value whose JSON fits max_allowed_packet"
		if b.refused != nil {
			rule = "must not be refused or kept by the table when it is deleted, or when " + s.table.sweep + " is set"
		}
		hook.Tell(s.opts.OnError, &driver.InvalidError{Field: "row", Value: fmt.Sprintf("skipped, %d times", b.skipped), Rule: rule, Err: b.refused})
	}
	return b, err
}

// attempt adds to b what take does in a transaction.
func (s *Sweeper) attempt(ctx context.Context, limit int, take takeRows, b *swept) error {
	part, err := s.transaction(ctx, limit, take)
	switch alone := len(part.keys) == 1; {
	case alone && s.table.outOfTime(err):
		part, err = s.hold(part.keys, err)
	case alone && errors.As(err, new(undone)):
		part, err = s.passAlone(ctx, part.keys, err, s.opts.Bury != nil && part.deleted > 0)
	}
	if b.keys = part.keys; err != nil {
		return err
	}
	b.deleted, b.filed, b.skipped = b.deleted+part.deleted, b.filed+part.filed, b.skipped+part.skipped
	b.dead, b.cut, b.more, b.refused = part.dead, part.cut, b.more || part.more, part.refused
	return nil
}

// takeRows locks and handles rows within a transaction.
type takeRows func(ctx context.Context, tx *stdsql.Tx, limit int) (swept, error)

func (s *Sweeper) transaction(ctx context.Context, limit int, take takeRows) (b swept, err error) {
	tx, err := s.table.begin(ctx)
	if err != nil {
		return b, err
	}
	defer func() { _ = tx.Rollback() }() // returns an error after a commit
	if b, err = take(ctx, tx, limit); err == nil && (b.rows() > 0 || b.refused != nil) {
		if err = tx.Commit(); s.table.refusesRow(err) {
			err = undone{err}
		}
	}
	return b, err
}

// unseen sets the sweep_at of the due rows that are alive or retained, and deletes the others, with a statement and a
// transaction each: the deletion may wait, and must lock none that a touch may need. It ends at an error: the next
// transaction finds out which rows and why.
func (s *Sweeper) unseen(ctx context.Context, limit int) (b swept) {
	t := s.table
	remove, dead := "DELETE FROM "+t.quoted(), t.expiresOrNever()+" <= "+s.horizon()
	for _, w := range []struct {
		statement, is, due string
		rows               *int
	}{
		{s.file(), fmt.Sprintf("%s BETWEEN %s + 1 AND %d", t.expiresOrNever(), s.horizon(), never), s.due(), &b.filed},
		{remove, dead, s.due() + " AND " + dead, &b.deleted},
		{remove, dead, s.parked() + " AND " + dead, &b.deleted},
	} {
		if b.rows() == limit {
			break
		}
		keys, args := s.query(strings.Join(t.keyColumns(), ", "), w.due, limit-b.rows())
		part, err := s.transaction(ctx, limit, func(ctx context.Context, tx *stdsql.Tx, _ int) (part swept, err error) {
			result, err := tx.ExecContext(ctx, t.dialect.bind(w.statement+" WHERE "+w.is+" AND "+t.dialect.some(t.keyTuple(), keys)), args...)
			if err == nil {
				n, _ := result.RowsAffected()
				part.deleted = int(n)
			}
			return part, err
		})
		if err != nil {
			break
		}
		*w.rows += part.deleted
	}
	s.hasDeleted(b.deleted)
	return b
}

// rows sets the sweep_at of the due rows that live. The dead are left to another transaction, which may be long, where
// it can leave the living unlocked.
func (s *Sweeper) rows(ctx context.Context, tx *stdsql.Tx, limit int) (swept, error) {
	rows, err := s.take(ctx, tx, limit)
	if err != nil {
		return swept{}, err
	}
	var dead []rowKey
	if !s.table.dialect.types().inProcess {
		dead, rows.dead = rows.dead, nil
	}
	b, err := s.handle(ctx, tx, rows)
	b.dead, b.more = dead, rows.more
	return b, err
}

// again takes those of keys that are still dead and due: a batch at the same time may have passed them by.
func (s *Sweeper) again(keys []rowKey) takeRows {
	return func(ctx context.Context, tx *stdsql.Tx, _ int) (swept, error) {
		t := s.table
		list, args := t.keyList(keys)
		sweep := t.dialect.quote(t.sweep) + " + 0" // not by its index, in which InnoDB would lock the living too
		from := fmt.Sprintf(" FROM %s WHERE %s IN %s AND %s <= %s AND (%s %s OR %[6]s %[8]s)",
			t.quoted(), t.keyTuple(), list, t.expiresOrNever(), s.horizon(), sweep, s.due(), s.parked())
		rows, err := s.read(ctx, tx, s.opts.Bury != nil, t.dialect.take(s.lives(true), t.ownColumns(), from), t.keyArgs(args))
		if err != nil {
			return swept{}, err
		}
		return s.handle(ctx, tx, rows)
	}
}

// handle buries and deletes the dead among locked rows, and sets the others' sweep_at.
func (s *Sweeper) handle(ctx context.Context, tx *stdsql.Tx, rows taken) (b swept, err error) {
	t := s.table
	if b = (swept{deleted: len(rows.dead), filed: len(rows.live), skipped: len(rows.skipped), cut: rows.cut, keys: slices.Concat(rows.dead, rows.live, rows.skipped)}); b.rows() == 0 {
		return b, nil
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT taken"); err != nil {
		return b, err
	}
	if len(rows.buried) > 0 {
		if err := s.opts.Bury(ctx, tx, rows.buried); err != nil {
			return swept{}, err // no row's
		}
	}
	for _, w := range s.writes(rows) {
		if _, err := tx.ExecContext(ctx, "SAVEPOINT part"); err != nil {
			return b, err
		}
		if _, err := t.sweepRows(ctx, tx, w); t.mayRefuseRow(err) {
			keys := b.keys
			b, err = s.passBy(ctx, tx, rows, err)
			b.keys = keys
			return b, err
		} else if err != nil {
			return b, err
		}
	}
	s.hasDeleted(b.deleted)
	return b, nil
}

// hasDeleted counts for deletes.
func (s *Sweeper) hasDeleted(rows int) {
	if s.deletes.Add(int64(rows)) > maxHeld {
		s.deletes.Store(maxHeld)
	}
}

// begin opens a transaction that writes.
func (t *table) begin(ctx context.Context) (*stdsql.Tx, error) {
	tx, err := t.db.BeginTx(ctx, &stdsql.TxOptions{Isolation: t.dialect.types().isolation})
	if err == nil {
		if err = t.lock(ctx, standard[*stdsql.Tx]{tx}); err != nil {
			_ = tx.Rollback()
		}
	}
	return tx, err
}

// horizon is the time before which a row must have expired to be deleted.
func (s *Sweeper) horizon() string { return s.before(s.table.retain) }

// due is the condition on sweep_at of the rows that have to be looked at.
func (s *Sweeper) due() string { return "<= " + s.before(0) }

// parked is that of the retained dead whose retention is over.
func (s *Sweeper) parked() string { return parkedBy(s.horizon()) }

// park is what the sweeper adds to the expiry of a dead row that is retained, to get its sweep_at. So
// Dying, which reads what is due soon, does not read the row. And sweepers of another retention find it.
const park = never - 1<<50

// parkedBy is the condition on sweep_at of rows that were parked and expired by then. A Retain is less
// than 1<<44 ms.
func parkedBy(then string) string {
	return fmt.Sprintf("BETWEEN %d AND %s + %d", park-1<<44, then, park)
}

func (s *Sweeper) before(retain time.Duration) string {
	if s.opts.Now != nil {
		return fmt.Sprint(int64(driver.Floor(s.opts.Now()).Add(-retain)))
	}
	return "(" + s.table.before(s.table.maxSkew+retain) + ")"
}

// query selects columns of the first rows that are due and not held.
func (s *Sweeper) query(columns, due string, limit int) (query string, args []any) {
	t := s.table
	// Both let PostgreSQL walk the index. The column is qualified, so that it is not the selected
	// text of that name. The limit is inlined: the planner assumes 10 % of the table for a
	// parameterised LIMIT.
	sweep := t.quoted() + "." + t.dialect.quote(t.sweep)
	but := ""
	held := s.held.now()
	if slices.ContainsFunc(held, rowKey.incomplete) { // which no list can leave out
		but = " AND " + strings.Join(t.keyColumns(), " IS NOT NULL AND ") + " IS NOT NULL"
	}
	if held = slices.DeleteFunc(held, rowKey.incomplete); len(held) > 0 {
		var list string
		list, args = t.keyList(held)
		but, args = but+" AND NOT ("+t.keyTuple()+" IN "+list+")", t.keyArgs(args)
	}
	return t.dialect.take(columns, t.ownColumns(), fmt.Sprintf(" FROM %s WHERE %s %s%s ORDER BY %[2]s LIMIT %[5]d", t.quoted(), sweep, due, but, limit)), args
}

// taken are locked rows, by their scanned key columns.
type taken struct {
	dead, live, skipped []rowKey
	buried              []driver.Dead // dead, as Bury gets them
	cut, more           bool          // as of swept
}

// take locks due rows or, if there are none, parked ones, and sorts them into dead, live and skipped.
// One query for both would read all rows between them.
func (s *Sweeper) take(ctx context.Context, tx *stdsql.Tx, limit int) (r taken, err error) {
	for _, due := range []string{s.due(), s.parked()} {
		query, args := s.taking(due, limit)
		r, err = s.read(ctx, tx, s.opts.Bury != nil && s.table.dialect.types().inProcess, query, args)
		if n := len(r.dead) + len(r.live) + len(r.skipped); err != nil || n > 0 {
			r.more = n == limit || due == s.due() // the parked ones
			return r, err
		}
	}
	return r, nil
}

// taking is the query of take.
func (s *Sweeper) taking(due string, limit int) (query string, args []any) {
	return s.query(s.lives(s.table.dialect.types().inProcess), due, limit)
}

// lives are the columns of a query for read, with the value for Bury if it is to be had now.
func (s *Sweeper) lives(value bool) string {
	t := s.table
	columns := append([]string{s.horizon()}, t.keyColumns()...)
	columns = append(columns, t.createdMillis(), t.expiresMillis(), t.dialect.quote(t.version))
	if value && s.opts.Bury != nil {
		columns = append(columns, t.rawValue(""))
	}
	return strings.Join(columns, ", ")
}

// read sorts rows. buries: they have values.
func (s *Sweeper) read(ctx context.Context, tx *stdsql.Tx, buries bool, query string, args []any) (r taken, err error) {
	t := s.table
	rows, err := tx.QueryContext(ctx, t.dialect.bind(query), args...)
	if err != nil {
		return r, err
	}
	defer func() { _ = rows.Close() }()
	var horizon driver.Instant
	var l life
	var value []byte
	key := newScannedKey(len(t.key.Columns))
	dest := append(append([]any{&horizon}, key.dest()...), l.dest()...)
	if buries {
		dest = append(dest, &value)
	}
	for bytes := 0; !r.cut && rows.Next(); r.cut = bytes >= s.bytes {
		if err := rows.Scan(dest...); err != nil {
			return r, misshapen(err)
		}
		k, meta, odd := rowKey{columns: slices.Clone(key.args)}, l.meta(), t.odd(&l)
		switch {
		case l.expires.odd || buries && t.tooLong(value) != nil:
			r.skipped = append(r.skipped, k)
		case meta.Alive(horizon):
			r.live = append(r.live, k)
		default:
			r.dead = append(r.dead, k)
			if buries {
				r.buried = append(r.buried, t.dead(key, meta, value, odd))
				bytes += len(value)
			}
		}
	}
	return r, rows.Err()
}

// dead converts a row for Bury.
func (t *table) dead(key scannedKey, m driver.Meta, value []byte, problem error) driver.Dead {
	name := t.key.Join(key.texts)
	if _, err := t.rowOf(name, 0); problem == nil {
		problem = err
	}
	return driver.Dead{Key: name, Raw: driver.Raw{Meta: m, Format: "json", Value: value, Problem: problem}, At: m.ExpiresAt}
}

// rowsWrite is a statement, without its WHERE, on the rows of keys.
type rowsWrite struct {
	statement string
	keys      []rowKey
	deletes   bool
}

// writes returns the writes of a batch. The last deletes: the others' rows may go with what it deletes.
func (s *Sweeper) writes(rows taken) []rowsWrite {
	all := []rowsWrite{{s.file(), rows.live, false}, {s.skip(), rows.skipped, false}}
	if s.opts.Bury != nil && s.table.keepDeleted {
		all = append(all, rowsWrite{s.later(fmt.Sprint(handedOver)), rows.dead, false})
	}
	return append(all, rowsWrite{"DELETE FROM " + s.table.quoted(), rows.dead, true})
}

// handedOver is the sweep_at by which a sweeper, in the transaction that deletes a row, tells the trigger of
// Options.Deletes that Bury has had it. No clock could: rows die while they are deleted, and each process has a Retain
// of its own.
const handedOver = never - 1

// file sets sweep_at to the expiry, and parks the retained dead.
func (s *Sweeper) file() string {
	at := s.table.expiresOrNever()
	if s.table.retain > 0 {
		at = fmt.Sprintf("CASE WHEN %[1]s %[2]s THEN %[1]s + %[3]d ELSE %[1]s END", at, s.due(), park)
	}
	return s.later(at)
}

// skip parks rows as if their retention were over in skipFor, so that Backlog finds those that are dead.
func (s *Sweeper) skip() string {
	return s.later(fmt.Sprintf("%s + %d", s.horizon(), park+skipFor.Milliseconds()))
}

func (s *Sweeper) later(at string) string {
	return "UPDATE " + s.table.quoted() + " SET " + s.table.dialect.quote(s.table.sweep) + " = " + at
}

// errKept says that rows were neither written nor refused.
var errKept = &driver.InvalidError{Field: "row", Value: "left as it is", Rule: "must be written, or refused with an error, and have a key that is not NULL: a trigger may keep it"}

// sweepRows executes w, after the savepoint part, and returns the number of rows. If some were left as
// they are, the error is errKept.
func (t *table) sweepRows(ctx context.Context, tx *stdsql.Tx, w rowsWrite) (n int, err error) {
	if len(w.keys) == 0 {
		return 0, nil
	}
	list, columns := t.keyList(w.keys)
	where, args := " WHERE "+t.keyTuple()+" IN "+list, t.keyArgs(columns)
	execute := func() error {
		result, err := tx.ExecContext(ctx, t.dialect.bind(w.statement+where), args...)
		if now := t.dialect.types().checkNow; err == nil && now != "" {
			_, err = tx.ExecContext(ctx, now)
		}
		if err != nil {
			return hidden(err, w.keys)
		}
		rows, err := result.RowsAffected()
		n = int(rows)
		return err
	}
	if err := execute(); err != nil || n >= len(w.keys) {
		return n, err
	}
	if !w.deletes {
		return n, errKept
	}
	// MySQL and SQLite do not count rows that ON DELETE CASCADE took, or a trigger. But what is not
	// there afterwards must have been there before: not every key finds its row.
	var left, there int
	count := func(n *int) error {
		return tx.QueryRowContext(ctx, t.dialect.bind("SELECT COUNT(*) FROM "+t.quoted()+where), args...).Scan(n)
	}
	if err := count(&left); err != nil || left > 0 {
		return len(w.keys) - left, cmp.Or(err, error(errKept))
	}
	if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT part"); err != nil {
		return 0, err
	}
	if err := errors.Join(count(&there), execute()); err != nil || there == len(w.keys) {
		return there, err
	}
	return there, errKept
}
