package sql

import (
	"cmp"
	"context"
	"crypto/sha256"
	stdsql "database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// replacedSuffix and deletedSuffix end the names of the triggers of Options.Replaced and
// Options.Deletes. Both triggers insert into the table that is named with replacedSuffix.
const (
	replacedSuffix = "_replaced"
	deletedSuffix  = "_deleted"
)

// replacedTable is that table's quoted name.
func (t *table) replacedTable() string {
	return qualified(t.dialect, t.schema, t.made(replacedSuffix))
}

// made is the name of what is made for the table: its own, and a suffix. Where that would be too long,
// a hash takes the place of its end.
func (t *table) made(suffix string) string {
	name := t.name + suffix
	if len(name) > maxName {
		hash := sha256.Sum256([]byte(name))
		end := fmt.Sprintf("_%x", hash[:4])
		name = strings.ToValidUTF8(name[:maxName-len(end)], "") + end
	}
	return name
}

// replacedKey returns the names of its key columns.
func (t *table) replacedKey() []string {
	names := make([]string, len(t.key.Columns))
	for i := range names {
		names[i] = "key" + strconv.Itoa(i)
	}
	return names
}

// ensureReplaced returns the statements that create that table and its triggers. Each may run
// again. d describes the table, or tells where it is going to be.
//
// A life is replaced if one write changes both version and created_at, and the row had a created_at
// or was dead: an adoption gives a live row its first. The life died at its expiry, or when the
// next began if that was earlier. A life is deleted if its row is deleted before its expiry:
// sweepers delete the others.
func (t *table) ensureReplaced(desc *description) (all []string) {
	if !t.keepReplaced && !t.keepDeleted {
		return nil
	}
	d, q, schema := t.dialect, t.dialect.quote, cmp.Or(desc.schema, t.schema)
	types := d.types()
	columns := []string{"id " + types.serial}
	for _, name := range t.replacedKey() {
		columns = append(columns, name+" "+types.key(t.maxKey))
	}
	columns = append(columns, "created_at "+types.integer+" NOT NULL", "died_at "+types.integer+" NOT NULL", "version "+types.integer+" NOT NULL", "deleted "+types.integer+" NOT NULL", "value "+types.text)
	all = append(all, "CREATE TABLE IF NOT EXISTS "+qualified(d, schema, t.made(replacedSuffix))+" ("+strings.Join(columns, ", ")+")")

	const old = "OLD."
	var key []string
	for _, c := range t.keyColumns() {
		key = append(key, d.text(old+c))
	}
	millis := func(c TimeColumn, row string) string { return "COALESCE(" + d.millis(c.Type, row+q(c.Name)) + ", 0)" }
	created, expires, version := millis(t.created, old), millis(t.expires, old), "COALESCE("+old+q(t.version)+", 0)"
	insert := func(died string, deleted int, where string) string {
		return fmt.Sprintf("INSERT INTO %s (%s, created_at, died_at, version, deleted, value) SELECT %s, %s, %s, %s, %d, %s WHERE %s",
			d.indexed(schema, t.made(replacedSuffix)), strings.Join(t.replacedKey(), ", "), strings.Join(key, ", "), created, died, version, deleted, t.rawValue(old), where)
	}
	if t.keepReplaced {
		next := millis(t.created, "NEW.")
		all = append(all, d.trigger(schema, t.name, t.made(replacedSuffix), "UPDATE OF "+q(t.version), insert(
			fmt.Sprintf("CASE WHEN %s = 0 OR %s > %s THEN %s ELSE %s END", expires, expires, next, next, expires), 0,
			fmt.Sprintf("%s <> COALESCE(NEW.%s, 0) AND %s <> 0 AND %s <> %s AND (%s <> 0 OR %s <> 0 AND %s <= %s)", version, q(t.version), next, next, created, created, expires, expires, next)))...)
	}
	if t.keepDeleted {
		all = append(all, d.trigger(schema, t.name, t.made(deletedSuffix), "DELETE", insert(d.clock(), 1, fmt.Sprintf("%s = 0 OR %s > %s", expires, expires, d.clock())))...)
	}
	return all
}

// replaced buries and deletes the rows that these triggers wrote, oldest first.
func (s *Sweeper) replaced(ctx context.Context, tx *stdsql.Tx, limit int) (b swept, err error) {
	dead, ids, cut, err := s.takeReplaced(ctx, tx, limit)
	if err != nil || len(ids) == 0 {
		return b, err
	}
	if err := s.opts.Bury(ctx, tx, dead); err != nil {
		return b, err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM "+s.table.replacedTable()+" WHERE id IN ("+strings.Join(ids, ", ")+")")
	return swept{deleted: len(ids), cut: cut}, err
}

// takeReplaced locks and returns the oldest of these rows.
func (s *Sweeper) takeReplaced(ctx context.Context, tx *stdsql.Tx, limit int) (dead []driver.Dead, ids []string, cut bool, err error) {
	t := s.table
	columns := strings.Join(append(append([]string{"id"}, t.replacedKey()...), "created_at", "died_at", "version", "deleted", "value"), ", ")
	rows, err := tx.QueryContext(ctx, t.dialect.take(columns, columns, fmt.Sprintf(" FROM %s ORDER BY id LIMIT %d", t.replacedTable(), limit)))
	if err != nil {
		return nil, nil, false, err
	}
	defer func() { _ = rows.Close() }()
	key := newScannedKey(len(t.key.Columns))
	for bytes := 0; !cut && rows.Next(); cut = bytes >= s.bytes {
		var id int64
		var m driver.Meta
		var deleted bool
		var value []byte
		if err := rows.Scan(append(append([]any{&id}, key.dest()...), &m.CreatedAt, &m.ExpiresAt, &m.Version, &deleted, &value)...); err != nil {
			return nil, nil, false, misshapen(err)
		}
		ids = append(ids, strconv.FormatInt(id, 10))
		d := t.dead(key, m, value, t.tooLong(value))
		d.Deleted = deleted
		dead = append(dead, d)
		bytes += len(value)
	}
	return dead, ids, cut, rows.Err()
}

// checkReplaced checks that the table and triggers of Options.Replaced and Options.Deletes exist.
func (t *table) checkReplaced(ctx context.Context, d *description) error {
	for _, o := range []struct {
		name, suffix string
		wanted       bool
	}{{"Replaced", replacedSuffix, t.keepReplaced}, {"Deletes", deletedSuffix, t.keepDeleted}} {
		if !o.wanted {
			continue
		}
		replaced, err := t.dialect.describe(ctx, t.db, t.schema, t.made(replacedSuffix))
		if err != nil {
			return t.failed(ctx, err)
		}
		switch made := t.made(replacedSuffix); {
		case len(replaced.columns) == 0 || replaced.schema != d.schema || !slices.Contains(d.enabled, t.made(o.suffix)):
			return t.invalid("Options."+o.name, "without its table, or its trigger enabled", "needs "+made+" in the same schema, and the trigger "+t.made(o.suffix)+", as EnsureTable makes them (MySQL: over a connection of utf8mb4)")
		case replaced.wrong != "":
			return t.invalid("Options."+o.name, "with a table "+replaced.wrong, "needs in "+made+" a table with transactions, of which this user sees all rows")
		case strings.Contains(replaced.columns["value"].name, " character set "):
			return t.invalid("Options."+o.name, "with values as "+replaced.columns["value"].name, "needs in "+made+" a column value of utf8mb4, as EnsureTable makes it: other texts are lost")
		case o.suffix == deletedSuffix && d.silent:
			return t.invalid("Options."+o.name, "with a reference that has ON DELETE CASCADE", "must not be set, or the reference not cascade: this database fires no trigger for the rows that it takes")
		}
	}
	return nil
}
