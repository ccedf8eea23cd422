package sql

import (
	"context"
	"errors"
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
