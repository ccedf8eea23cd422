package sql

import (
	"context"
	stdsql "database/sql"
	"sync"
	"time"
)

// heldRows are rows that can be neither deleted nor filed, which a sweeper leaves alone for skipFor.
type heldRows struct {
	mu    sync.Mutex // guards the rest
	rows  []rowKey
	since time.Time
}

// maxHeld bounds them, for each is an argument of what a sweeper asks.
const maxHeld = 1000

// now returns those that are held.
func (h *heldRows) now() []rowKey {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.since) > skipFor {
		h.rows = nil
	}
	return h.rows
}

// add reports whether there was room.
func (h *heldRows) add(keys []rowKey) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.rows)+len(keys) > maxHeld {
		return false
	}
	if len(h.rows) == 0 {
		h.since = time.Now()
	}
	h.rows = append(h.rows, keys...)
	return true
}

// refusesRow reports whether a database says so of a row, as by a trigger or a foreign key, and not of
// all that is asked.
func refusesRow(v verdict) bool { return v == impossible || v == duplicate }

// passBy finds those rows of a batch that the database does not let be written, where it refused the
// whole, and files them for later, or holds them where it refuses that too. It returns how many
// there are.
func (s *Sweeper) passBy(ctx context.Context, limit int) (n int, err error) {
	t := s.table
	tx, err := t.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // no more than an error once it is committed
	rows, err := s.take(ctx, tx, limit)
	if err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT taken"); err != nil {
		return 0, err
	}
	var passed []rowKey
	var why error
	for _, w := range s.writes(rows) {
		refused, reason, err := t.refused(ctx, tx, w)
		if err != nil {
			return 0, err
		}
		if passed = append(passed, refused...); reason != nil {
			why = reason
		}
	}
	// What the database did not refuse is for the next batch, whose dead are buried first.
	if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT taken"); err != nil || len(passed) == 0 {
		return 0, err
	}
	held, reason, err := t.refused(ctx, tx, s.skip(passed))
	switch {
	case err != nil:
		return 0, err
	case !s.held.add(held): // before another can take them
		return 0, reason
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	s.counts.batches.Add(1)
	s.skipped(len(passed), "must be one that the table lets be deleted, and be given another "+t.sweep, why)
	return len(passed), nil
}

// refused carries w out in halves, and returns the rows on which the database refuses it, and the
// last reason that it gives.
func (t *table) refused(ctx context.Context, tx *stdsql.Tx, w rowsWrite) (keys []rowKey, why, err error) {
	if len(w.keys) == 0 {
		return nil, nil, nil
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT part"); err != nil {
		return nil, nil, err
	}
	if _, why = t.sweepRows(ctx, tx, w); why == nil {
		return nil, nil, nil
	} else if !refusesRow(t.dialect.verdict(why)) {
		return nil, nil, why
	}
	if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT part"); err != nil || len(w.keys) == 1 {
		return w.keys, why, err
	}
	half := len(w.keys) / 2
	for _, part := range [][]rowKey{w.keys[:half], w.keys[half:]} {
		refused, _, err := t.refused(ctx, tx, rowsWrite{w.statement, w.args, part})
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, refused...)
	}
	return keys, why, nil
}
