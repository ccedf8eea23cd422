package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// replacedSuffix ends the names of the table and the trigger of Options.Replaced.
const replacedSuffix = "_replaced"

// replacedTable is the name of the table of Options.Replaced in a statement.
func (t *table) replacedTable() string { return qualified(t.dialect, t.schema, t.name+replacedSuffix) }

// replacedKey are the names of the key's columns there.
func (t *table) replacedKey() []string {
	names := make([]string, len(t.key.Columns))
	for i := range names {
		names[i] = "key" + strconv.Itoa(i)
	}
	return names
}

// ensureReplaced are the statements that make the table of Options.Replaced and its trigger. Each may
// run again.
//
// A life is replaced where a row gets another version and another created_at at once, and had
// one or was dead: an adoption gives its first to a row that is alive. It died at its
// expiry, or when the next began if that was still to come.
func (t *table) ensureReplaced() []string {
	d, q := t.dialect, t.dialect.quote
	types := d.types()
	columns := []string{"id " + types.serial}
	for _, name := range t.replacedKey() {
		columns = append(columns, name+" "+types.key(t.maxKey))
	}
	columns = append(columns, "created_at "+types.integer+" NOT NULL", "died_at "+types.integer+" NOT NULL", "version "+types.integer+" NOT NULL", "value "+types.text)
	table := "CREATE TABLE IF NOT EXISTS " + t.replacedTable() + " (" + strings.Join(columns, ", ") + ")"

	var was []string
	for _, c := range append(append([]string{t.created.Name, t.expires.Name, t.version}, t.key.Columns...), t.values...) {
		was = append(was, "OLD."+q(c)+" AS "+q(c))
	}
	created, expires := "COALESCE("+t.createdMillis()+", 0)", "COALESCE("+t.expiresMillis()+", 0)"
	next := "COALESCE(" + d.millis(t.created.Type, "NEW."+q(t.created.Name)) + ", 0)"
	var key []string
	for _, c := range t.keyColumns() {
		key = append(key, d.text(c))
	}
	insert := fmt.Sprintf("INSERT INTO %s (%s, created_at, died_at, version, value) SELECT %s, %s, CASE WHEN %s = 0 OR %s > %s THEN %s ELSE %s END, COALESCE(%s, 0), %s FROM (SELECT %s) AS was WHERE %s <> 0 AND %s <> %s AND (%s <> 0 OR %s <> 0 AND %s <= %s)",
		d.indexed(t.schema, t.name+replacedSuffix), strings.Join(t.replacedKey(), ", "),
		strings.Join(key, ", "), created, expires, expires, next, next, expires, q(t.version), t.rawValue(), strings.Join(was, ", "),
		next, next, created, created, expires, expires, next)
	return append([]string{table}, d.trigger(t.schema, t.name, t.version, replacedSuffix, insert)...)
}

// replaced hands over and deletes what Options.Replaced has kept, the first of it first.
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

// takeReplaced locks what was kept first.
func (s *Sweeper) takeReplaced(ctx context.Context, tx *stdsql.Tx, limit int) (dead []driver.Dead, ids []string, cut bool, err error) {
	t := s.table
	columns := append([]string{"id"}, t.replacedKey()...)
	rows, err := tx.QueryContext(ctx, t.dialect.take(strings.Join(append(columns, "created_at", "died_at", "version", "value"), ", "),
		fmt.Sprintf(" FROM %s ORDER BY id LIMIT %d", t.replacedTable(), limit)))
	if err != nil {
		return nil, nil, false, err
	}
	defer func() { _ = rows.Close() }()
	key := newScannedKey(len(t.key.Columns))
	for bytes := 0; !cut && rows.Next(); cut = bytes >= s.bytes {
		var id int64
		var m driver.Meta
		var value []byte
		if err := rows.Scan(append(append([]any{&id}, key.dest()...), &m.CreatedAt, &m.ExpiresAt, &m.Version, &value)...); err != nil {
			return nil, nil, false, misshapen[driver.Dead](err)
		}
		ids = append(ids, strconv.FormatInt(id, 10))
		dead = append(dead, t.dead(key, m, value, nil))
		bytes += len(value)
	}
	return dead, ids, cut, rows.Err()
}

// checkReplaced says what Options.Replaced lacks.
func (t *table) checkReplaced(ctx context.Context) error {
	if !t.keepReplaced {
		return nil
	}
	name := t.name + replacedSuffix
	desc, err := t.dialect.describe(ctx, t.db, t.schema, name)
	if err != nil {
		return err
	}
	var triggers int
	if err := t.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+t.dialect.types().triggers+" = '"+name+"'").Scan(&triggers); err != nil {
		return err
	}
	if len(desc.columns) == 0 || triggers == 0 {
		return t.invalid("Options.Replaced", "without its table or trigger", "needs both, "+name+", as EnsureTable makes them")
	}
	return nil
}
