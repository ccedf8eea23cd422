package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// EraseEnded implements driver.Eraser. It reads the keys of all lives that wait for a sweeper in the
// table of Options.Replaced and Options.Deletes, if there is one, whatever the options.
func (t *table) EraseEnded(ctx context.Context, match func(key string) bool, apply bool) (int64, error) {
	desc, err := t.dialect.describe(ctx, t.db, t.schema, t.name+replacedSuffix)
	if err != nil || len(desc.columns) == 0 {
		return 0, err
	}
	rows, err := t.db.QueryContext(ctx, "SELECT id, "+strings.Join(t.replacedKey(), ", ")+" FROM "+t.replacedTable())
	if err != nil {
		return 0, t.failed(ctx, err, rowKey{})
	}
	defer func() { _ = rows.Close() }()
	var ids []string
	key := newScannedKey(len(t.key.Columns))
	for rows.Next() {
		var id int64
		if err := rows.Scan(append([]any{&id}, key.dest()...)...); err != nil {
			return 0, misshapen(err)
		}
		if match(t.key.Join(key.texts)) {
			ids = append(ids, strconv.FormatInt(id, 10))
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, t.failed(ctx, err, rowKey{})
	}
	if !apply {
		return int64(len(ids)), nil
	}
	erased := int64(0)
	for some := range slices.Chunk(ids, 500) {
		r, err := t.db.ExecContext(ctx, "DELETE FROM "+t.replacedTable()+" WHERE id IN ("+strings.Join(some, ", ")+")")
		if err != nil {
			return erased, t.failed(ctx, err, rowKey{})
		}
		n, _ := r.RowsAffected()
		erased += n
	}
	return erased, nil
}

// Scrub implements driver.Eraser, for SQLite.
//
// It empties the write-ahead log, and runs VACUUM if a page holds one of texts in free space, where another connection freed or moved it without secure_delete.
// With more than 64 texts it does not look. It does nothing for other databases.
func (t *table) Scrub(ctx context.Context, texts []string) []string {
	if _, is := t.dialect.(sqlite); !is {
		return nil
	}
	for vacuum := true; ; vacuum = false {
		var busy, n, held int
		err := t.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &n, &n)
		if err != nil || busy != 0 {
			return []string{fmt.Sprintf("the write-ahead log, until no other connection prevents a checkpoint (%v)", err)}
		}
		for _, text := range texts[:min(len(texts), 64)] {
			if err := t.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_dbpage WHERE instr(data, CAST(? AS BLOB)) > 0", text).Scan(&n); err != nil {
				return []string{"free space of the file, until VACUUM: " + err.Error()}
			}
			held += n
		}
		switch {
		case held == 0 && (len(texts) <= 64 || !vacuum):
			return nil
		case !vacuum:
			return []string{"other records of the file, which mention these keys"}
		}
		if _, err := t.db.ExecContext(ctx, "VACUUM"); err != nil {
			return []string{"free space of the file, until VACUUM: " + err.Error()}
		}
	}
}
