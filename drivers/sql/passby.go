package sql

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// heldRows are rows that can be neither deleted nor given a new sweep_at. A sweeper skips them for
// skipFor.
type heldRows struct {
	mu    sync.Mutex // guards the rest
	rows  map[string]rowKey
	brief []string // those that are held until the sweep ends
	since time.Time
}

// maxHeld limits them, because each is an argument of the sweeper's queries.
const maxHeld = 1000

func (h *heldRows) now() []rowKey {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.since) > skipFor {
		h.rows, h.since = make(map[string]rowKey), time.Now()
	}
	return slices.Collect(maps.Values(h.rows))
}

// add returns how many were held already, because a concurrent batch may have found them, and
// whether there was room for all.
func (h *heldRows) add(keys []rowKey) (known int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := maps.Clone(h.rows) // several may have the same key: none
	for _, k := range keys {
		name := k.name()
		if _, held := before[name]; held {
			known++
		} else if len(h.rows) == maxHeld {
			return known, false
		}
		h.rows[name] = k
	}
	return known, true
}

// release ends the hold of the brief ones.
func (h *heldRows) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range h.brief {
		delete(h.rows, name)
	}
	h.brief = nil
}

// holds reports whether a concurrent batch has found all of keys.
func (h *heldRows) holds(keys []rowKey) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(keys, func(k rowKey) bool { _, held := h.rows[k.name()]; return !held })
}

// name tells apart the keys of held rows.
func (k rowKey) name() string { return fmt.Sprintf("%#v", k.columns) }

// incomplete reports whether a column of the key is NULL, so that no statement can name its row.
func (k rowKey) incomplete() bool { return slices.Contains(k.columns, nil) }

// refusesRow reports whether err is about a row, as of a trigger or a foreign key, and not about the
// whole statement.
func (t *table) refusesRow(err error) bool {
	v := t.dialect.verdict(err)
	return err == errKept || v == impossible || v == duplicate
}

// mayRefuseRow reports whether err is about a row if others can be written.
func (t *table) mayRefuseRow(err error) bool {
	v := t.dialect.verdict(err)
	return t.refusesRow(err) || err != nil && (v == refused || v == barred || v == objected)
}

// outOfTime reports whether a limit on time, or on the wait for a lock, has ended a statement. A part of its rows may do
// with it.
func (t *table) outOfTime(err error) bool {
	v := t.dialect.verdict(err)
	return v == tooSlow || v == timedOut
}

// undone is a refusal that has undone its whole transaction, as of SQLite's RAISE(ROLLBACK), or of a
// reference that is checked when it is committed.
type undone struct{ error }

func (u undone) Unwrap() error { return u.error }

// back returns to a savepoint after a refusal.
func (t *table) back(ctx context.Context, tx *stdsql.Tx, to string, refusal error) error {
	_, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+to)
	if v := t.dialect.verdict(err); err != nil && refusal != nil && (v == refused || v == barred) { // there is none by now
		return undone{refusal}
	}
	return err
}

// passAlone passes by the only row of a transaction that its refusal has undone. If that was SQLite's of a
// COMMIT with work of Bury's, it returns the refusal, unless the row's deletion by itself breaks a reference.
func (s *Sweeper) passAlone(ctx context.Context, row []rowKey, refusal error, buried bool) (b swept, err error) {
	if buried {
		if broken, err := s.breaks(ctx, row); err != nil || !broken {
			return b, cmp.Or(err, refusal)
		}
	}
	b, err = s.transaction(ctx, 1, func(ctx context.Context, tx *stdsql.Tx, _ int) (swept, error) {
		_, err := s.table.sweepRows(ctx, tx, rowsWrite{s.skip(), row, false})
		return swept{skipped: 1, refused: refusal}, err
	})
	if !s.table.refusesRow(err) {
		return b, err
	}
	return s.hold(row, refusal)
}

// hold passes by the only row of a transaction without a write: for this sweep, if that has only waited in vain.
func (s *Sweeper) hold(row []rowKey, refusal error) (b swept, err error) {
	known, ok := s.held.add(row)
	if !ok {
		return b, refusal
	}
	if known == 0 && s.table.outOfTime(refusal) {
		s.held.mu.Lock()
		defer s.held.mu.Unlock()
		s.held.brief = append(s.held.brief, row[0].name())
	}
	return swept{skipped: 1 - known, refused: refusal}, nil
}

// breaks reports whether the row's deletion breaks a reference in SQLite. It is rolled back.
func (s *Sweeper) breaks(ctx context.Context, row []rowKey) (broken bool, err error) {
	_, err = s.transaction(ctx, 1, func(ctx context.Context, tx *stdsql.Tx, _ int) (none swept, err error) {
		before, err := s.table.broken(ctx, tx)
		if err == nil {
			_, err = tx.ExecContext(ctx, "SAVEPOINT part")
		}
		if err == nil {
			all := s.writes(taken{dead: row})
			_, err = s.table.sweepRows(ctx, tx, all[len(all)-1])
		}
		if err != nil {
			return none, err
		}
		after, err := s.table.broken(ctx, tx)
		for reference, n := range after {
			broken = broken || n > before[reference]
		}
		return none, err
	})
	return broken, err
}

// broken counts the references in SQLite's file that are broken, by the row that has each: a cascade or a trigger may
// break those of any table. Tables with a malformed reference have none, for SQLite refuses their rows.
func (t *table) broken(ctx context.Context, tx *stdsql.Tx) (counts map[[3]any]int, err error) {
	schema := cmp.Or(t.schema, "main")
	var tables []string
	err = each(ctx, tx, "SELECT DISTINCT m.name FROM "+qualified(t.dialect, schema, "sqlite_master")+" m, pragma_foreign_key_list(m.name, ?)", []any{schema}, func(scan func(...any) error) error {
		tables = append(tables, "")
		return scan(&tables[len(tables)-1])
	})
	counts = make(map[[3]any]int)
	for _, name := range tables {
		checked := each(ctx, tx, `SELECT "table", rowid, fkid FROM pragma_foreign_key_check(?, ?)`, []any{name, schema}, func(scan func(...any) error) error {
			var row [3]any // rowid is NULL in a table WITHOUT ROWID
			err := scan(&row[0], &row[1], &row[2])
			counts[row]++
			return err
		})
		if t.dialect.verdict(checked) != barred { // as malformed
			err = cmp.Or(err, checked)
		}
	}
	return counts, err
}

// passBy finds the rows, locked by tx, which the database refused to write or kept. It gives them a
// later sweep_at, or holds them if that is refused too. The others are left for the next batch,
// which buries its dead first.
func (s *Sweeper) passBy(ctx context.Context, tx *stdsql.Tx, rows taken, whole error) (b swept, err error) {
	t := s.table
	if err := t.back(ctx, tx, "taken", whole); err != nil {
		return b, err
	}
	var passed []rowKey
	for i, w := range s.writes(rows) {
		refused, why, err := t.refused(ctx, tx, w)
		if err != nil {
			return b, err
		}
		if why != nil && !t.refusesRow(why) && len(refused) == len(w.keys) && !s.held.holds(refused) {
			// None was written by this statement. It is about the table unless it writes other rows, or has just deleted as many.
			if writes, err := s.writesOthers(ctx, tx, rows, i); err != nil {
				return b, err
			} else if !writes && !(w.deletes && s.deletes.Add(-int64(len(refused))) >= 0) {
				return b, ofTable{why}
			}
		}
		if passed = append(passed, refused...); why != nil {
			b.refused = why
		}
	}
	if len(passed) == 0 {
		return b, whole
	}
	if err := t.back(ctx, tx, "taken", nil); err != nil {
		return b, err
	}
	held, why, err := t.refused(ctx, tx, rowsWrite{s.skip(), passed, false})
	if err != nil {
		return b, err
	}
	known, ok := s.held.add(held)
	if !ok {
		return b, why
	}
	b.skipped = len(passed) - known
	return b, nil
}

// ofTable is a refusal of all rows that were tried.
type ofTable struct{ error }

func (o ofTable) Unwrap() error { return o.error }

const (
	triedNext  = 32 // how many due rows are tried that come after a batch of which none could be written
	triedLater = 4  // and how many at each further place
)

// writesOthers reports whether the i-th of s.writes writes any due row but those of batch: one of the next, or one further
// on, at random places that lie ever further apart. So rows that are refused keep the sweeper from no other
// for long, however many they are. The caller undoes what is written.
func (s *Sweeper) writesOthers(ctx context.Context, tx *stdsql.Tx, batch taken, i int) (bool, error) {
	t := s.table
	own := make(map[string]bool)
	for _, k := range slices.Concat(batch.dead, batch.live, batch.skipped) {
		own[k.name()] = true
	}
	for _, due := range []string{s.due(), s.parked()} {
		for from, limit := 0, len(own)+triedNext; ; limit = triedLater {
			query := fmt.Sprintf("SELECT %s FROM %s WHERE %s %s ORDER BY %[3]s LIMIT %[5]d OFFSET %[6]d", strings.Join(t.keyColumns(), ", "), t.quoted(), t.dialect.quote(t.sweep), due, limit, from)
			var keys []rowKey
			rows := 0
			err := each(ctx, tx, query, nil, func(scan func(...any) error) error {
				key := newScannedKey(len(t.key.Columns))
				err := scan(key.dest()...)
				if k := (rowKey{columns: key.args}); !own[k.name()] && len(keys) < triedNext {
					keys = append(keys, k)
				}
				rows++
				return err
			})
			if err != nil {
				return false, err
			}
			if rows == 0 {
				break
			}
			if writes, err := s.writesAny(ctx, tx, keys, i); err != nil || writes {
				return writes, err
			}
			from = max(len(own)+triedNext, from)
			from += rand.N(from)/2 + 1
		}
	}
	return false, nil
}

// writesAny reports whether the i-th of s.writes writes any of the rows of keys. Those that others have locked are not tried.
func (s *Sweeper) writesAny(ctx context.Context, tx *stdsql.Tx, keys []rowKey, i int) (bool, error) {
	if len(keys) == 0 {
		return false, nil
	}
	t := s.table
	list, args := t.keyList(keys)
	rows, err := s.read(ctx, tx, false, t.dialect.take(s.lives(false), t.ownColumns(), " FROM "+t.quoted()+" WHERE "+t.keyTuple()+" IN "+list), t.keyArgs(args))
	if err != nil {
		return false, err
	}
	w := s.writes(rows)[i]
	for _, k := range w.keys {
		if refused, _, err := t.refused(ctx, tx, rowsWrite{w.statement, []rowKey{k}, w.deletes}); err != nil || len(refused) == 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// refused executes w in halves, and returns the rows that the database refuses or keeps, with a
// reason: one that may be about the table, if there is one. It undoes what it deletes.
func (t *table) refused(ctx context.Context, tx *stdsql.Tx, w rowsWrite) (keys []rowKey, why, err error) {
	if len(w.keys) == 0 {
		return nil, nil, nil
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT part"); err != nil {
		return nil, nil, err
	}
	n, why := t.sweepRows(ctx, tx, w)
	if why != nil && !t.mayRefuseRow(why) {
		return nil, nil, why
	}
	if why != nil || w.deletes { // each part is tried by itself: another part's delete may cascade into it
		if err := t.back(ctx, tx, "part", why); err != nil {
			return nil, nil, err
		}
	}
	// A savepoint that is not released makes each later one, by the same name, a level deeper.
	if _, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT part"); err != nil || why == nil {
		return nil, nil, err
	}
	if why == errKept && n == 0 || len(w.keys) == 1 {
		return w.keys, why, nil
	}
	half := len(w.keys) / 2
	for _, part := range [][]rowKey{w.keys[:half], w.keys[half:]} {
		refused, reason, err := t.refused(ctx, tx, rowsWrite{w.statement, part, w.deletes})
		if err != nil {
			return nil, nil, err
		}
		if keys = append(keys, refused...); reason != nil && t.refusesRow(why) {
			why = reason
		}
	}
	return keys, why, nil
}
