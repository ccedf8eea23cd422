package sql

import (
	"cmp"
	"context"
	"crypto/sha256"
	stdsql "database/sql"
	"fmt"
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

// keeper is a trigger of Options.Replaced or Options.Deletes.
type keeper struct {
	option, name string
	mark         string // stands in its text, and in no other's
	statements   []string
}

// keepers returns the triggers of the table that d describes, or tells where it is going to be.
//
// A life is replaced if one write changes both version and created_at, and the row had a created_at
// or was dead: an adoption gives a live row its first. The life died at its expiry, or when the
// next began if that was earlier. A life is deleted, or died at its expiry before that, if its row is deleted by
// anyone but a sweeper that hands it over itself.
func (t *table) keepers(desc *description) (all []keeper) {
	d, q := t.dialect, t.dialect.quote
	const old = "OLD."
	var key []string
	for _, c := range t.keyColumns() {
		key = append(key, d.text(old+c))
	}
	millis := func(c TimeColumn, row string) string { return "COALESCE(" + d.millis(c.Type, row+q(c.Name)) + ", 0)" }
	created, expires, version := millis(t.created, old), millis(t.expires, old), "COALESCE("+old+q(t.version)+", 0)"
	add := func(option, suffix, event, died, deleted, from, where string) {
		insert := fmt.Sprintf("INSERT INTO %s (%s, created_at, died_at, version, deleted, value) SELECT %s, %s, %s, %s, %s, %s%s WHERE ",
			qualified(d, desc.schema, t.made(replacedSuffix)), strings.Join(t.replacedKey(), ", "), strings.Join(key, ", "), created, died, version, deleted, t.rawValue(old), from)
		// Not the text itself: MariaDB gives it back without comments.
		mark := fmt.Sprintf("slidingttl %x", sha256.Sum256([]byte(event+insert+where)))
		k := keeper{option: option, name: t.made(suffix), mark: mark[:len("slidingttl ")+16]}
		k.statements = d.trigger(cmp.Or(desc.schema, t.schema), t.name, k.name, event, insert+"'"+k.mark+"' <> '' AND "+where)
		all = append(all, k)
	}
	if t.keepReplaced {
		next := millis(t.created, "NEW.")
		add("Replaced", replacedSuffix, "UPDATE OF "+q(t.version),
			fmt.Sprintf("CASE WHEN %s = 0 OR %s > %s THEN %s ELSE %s END", expires, expires, next, next, expires), "0", "",
			fmt.Sprintf("%s <> COALESCE(NEW.%s, 0) AND %s <> 0 AND %s <> %s AND (%s <> 0 OR %s <> 0 AND %s <= %s)", version, q(t.version), next, next, created, created, expires, expires, next))
	}
	if t.keepDeleted {
		alive := "CASE WHEN " + expires + " = 0 OR " + expires + " > clock.now_ms THEN %s ELSE %s END"
		add("Deletes", deletedSuffix, "DELETE", fmt.Sprintf(alive, "clock.now_ms", expires), fmt.Sprintf(alive, "1", "0"),
			" FROM (SELECT "+d.clock()+" AS now_ms) AS clock", fmt.Sprintf("COALESCE(%s, 0) <> %d", old+q(t.sweep), handedOver))
	}
	return all
}

// ensureReplaced returns the statements that create that table and its triggers, or bring them up to date.
func (t *table) ensureReplaced(d *description) (all []string) {
	if d.kept == nil {
		return nil
	}
	types, name := t.dialect.types(), qualified(t.dialect, cmp.Or(d.schema, t.schema), t.made(replacedSuffix))
	if texts := append(t.replacedKey(), "value"); len(d.kept.columns) == 0 {
		columns := strings.Join(texts, " "+types.kept+", ") + " " + types.kept
		for _, c := range []string{"created_at", "died_at", "version", "deleted"} {
			columns += ", " + c + " " + types.integer + " NOT NULL"
		}
		all = append(all, "CREATE TABLE IF NOT EXISTS "+name+" (id "+types.serial+", "+columns+")")
	} else {
		for _, c := range texts {
			if is, there := d.kept.columns[c]; !there {
				all = append(all, "ALTER TABLE "+name+" ADD COLUMN "+c+" "+types.kept)
			} else if types.modify != "" && !strings.EqualFold(is.name, types.kept) {
				all = append(all, fmt.Sprintf(types.modify, name, c, types.kept))
			}
		}
	}
	for _, k := range t.keepers(d) {
		if !strings.Contains(d.enabled[k.name], k.mark) {
			all = append(all, k.statements...)
		}
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
		var l life
		var deleted bool
		var value []byte
		if err := rows.Scan(append(append(append([]any{&id}, key.dest()...), l.dest()...), &deleted, &value)...); err != nil {
			return nil, nil, false, misshapen(err)
		}
		ids = append(ids, strconv.FormatInt(id, 10))
		if l.expires.odd {
			l.expires.n = int64(driver.Floor(t.Now()))
		}
		d := t.dead(key, l.meta(), value, cmp.Or(t.odd(&l), t.tooLong(value)))
		d.Deleted = deleted
		dead = append(dead, d)
		bytes += len(value)
	}
	return dead, ids, cut, rows.Err()
}

// checkReplaced checks that the table and triggers of Options.Replaced and Options.Deletes exist, as
// ensureReplaced makes them.
func (t *table) checkReplaced(d *description) error {
	if d.kept == nil {
		return nil
	}
	made, mend := t.made(replacedSuffix), ", as EnsureTable and the statements of Schema make it"
	for _, k := range t.keepers(d) {
		text, enabled := d.enabled[k.name]
		switch {
		case len(d.kept.columns) == 0 || d.kept.schema != d.schema || !enabled:
			return t.invalid("Options."+k.option, "without its table, or its trigger enabled", "needs "+made+" in the same schema, and the trigger "+k.name+mend+" (MySQL: over a connection of utf8mb4)")
		case d.kept.wrong != "":
			return t.invalid("Options."+k.option, "with a table "+d.kept.wrong, "needs in "+made+" a table with transactions, of which this user sees all rows")
		case text != "" && !strings.Contains(text, k.mark):
			return t.invalid("Options."+k.option, "with the trigger of another release, or of other Options", "needs the trigger "+k.name+mend+": otherwise what it hands over lacks columns, or is lost")
		case k.option == "Deletes" && d.silent:
			return t.invalid("Options."+k.option, "with a reference that has ON DELETE CASCADE", "must not be set, or the reference not cascade: this database fires no trigger for the rows that it takes")
		}
		for _, c := range append(t.replacedKey(), "value") {
			is, there := d.kept.columns[c]
			if !there || t.dialect.types().modify != "" && !strings.EqualFold(is.name, t.dialect.types().kept) {
				return t.invalid("Options."+k.option, fmt.Sprintf("with %s as %q", c, is.name), "needs in "+made+" a column "+c+" of "+t.dialect.types().kept+mend+": others lose texts, or refuse them")
			}
		}
	}
	return nil
}
