package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Whole implements driver.Eraser.
func (t *table) Whole(driver.Erasure) driver.Scanner { return unfiltered{t} }

type unfiltered struct{ *table }

// Raw implements driver.RawReader, also for rows that another program has written: under keys that the driver
// refuses, and in SQLite under a BLOB.
func (w unfiltered) Raw(ctx context.Context, key string) (driver.Raw, error) {
	raw, was := w.table.Raw(ctx, key)
	_, isSQLite := w.dialect.(sqlite)
	if absent := isSQLite && errors.Is(was, driver.ErrNotFound); !absent && !errors.Is(was, driver.ErrInvalid) {
		return raw, was
	}
	k, err := w.key.split(key)
	if err != nil {
		return raw, was
	}
	query, args := w.sql.raw, k.columns
	if isSQLite {
		query, args = query[:strings.LastIndex(query, " WHERE ")]+" WHERE 1", nil
		for i, c := range k.columns {
			query += " AND " + w.dialect.quote(w.key.Columns[i]) + " IN (?, ?)"
			args = append(args, c, fmt.Appendf(nil, "%s", c))
		}
	}
	var r rawRow
	switch err := w.row(ctx, k, query, args, r.dest()); {
	case errors.Is(err, driver.ErrNotFound), errors.Is(err, driver.ErrInvalid): // the database cannot have such a key
		return raw, was
	case err != nil:
		return raw, err
	}
	return w.rawOf(&r), nil
}

// EraseEnded implements driver.Eraser. It reads the keys of all lives that wait for a sweeper in the
// table of Options.Replaced and Options.Deletes, if there is one, whatever the options.
func (t *table) EraseEnded(ctx context.Context, what driver.Erasure, apply bool) (ended, later int64, err error) {
	desc, err := t.dialect.describe(ctx, t.db, t.schema, t.made(replacedSuffix))
	if err != nil || len(desc.columns) == 0 {
		return 0, 0, err
	}
	rows, err := t.db.QueryContext(ctx, "SELECT id, "+strings.Join(t.replacedKey(), ", ")+" FROM "+t.replacedTable())
	if err != nil {
		return 0, 0, t.failed(ctx, err, rowKey{})
	}
	defer func() { _ = rows.Close() }()
	var ids []string
	key := newScannedKey(len(t.key.Columns))
	for rows.Next() {
		var id int64
		if err := rows.Scan(append([]any{&id}, key.dest()...)...); err != nil {
			return 0, 0, misshapen(err)
		}
		if what.Has(t.key.Join(key.texts)) {
			ids = append(ids, strconv.FormatInt(id, 10))
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, 0, t.failed(ctx, err, rowKey{})
	}
	if !apply {
		return int64(len(ids)), 0, nil
	}
	for some := range slices.Chunk(ids, 500) {
		r, err := t.db.ExecContext(ctx, "DELETE FROM "+t.replacedTable()+" WHERE id IN ("+strings.Join(some, ", ")+")")
		if err != nil {
			return ended, 0, t.failed(ctx, err, rowKey{})
		}
		n, _ := r.RowsAffected()
		ended += n
	}
	return ended, 0, nil
}

// Scrub implements driver.Eraser, for SQLite.
//
// It empties the write-ahead log, and runs VACUUM if a page holds a key or the prefix in free space, where another connection freed or moved it without secure_delete.
// With more than 64 keys it does not look. It does nothing for other databases. An error says what has
// kept it from that, such as another connection.
func (t *table) Scrub(ctx context.Context, what driver.Erasure) ([]string, error) {
	if _, is := t.dialect.(sqlite); !is {
		return nil, nil
	}
	texts := what.Keys
	if what.Prefix != "" {
		texts = []string{what.Prefix}
	}
	for vacuum := true; ; vacuum = false {
		var busy, n, held int
		if err := t.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &n, &n); err != nil {
			return nil, t.failed(ctx, err, rowKey{})
		}
		if busy != 0 {
			return nil, errors.New("the write-ahead log still holds what was erased: another connection prevents a checkpoint: end its transaction, and erase again")
		}
		for _, text := range texts[:min(len(texts), 64)] {
			if err := t.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_dbpage WHERE instr(data, CAST(? AS BLOB)) > 0", text).Scan(&n); err != nil {
				return []string{"free space of the file, until VACUUM: " + err.Error()}, nil
			}
			held += n
		}
		switch {
		case held == 0 && (len(texts) <= 64 || !vacuum):
			return nil, nil
		case !vacuum:
			return []string{"other records of the file, which mention these keys"}, nil
		}
		if _, err := t.db.ExecContext(ctx, "VACUUM"); err != nil {
			return nil, fmt.Errorf("free space of the file still holds what was erased: end the transactions of other connections, or make room, and erase again: VACUUM: %w", t.failed(ctx, err, rowKey{}))
		}
	}
}
