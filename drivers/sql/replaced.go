package sql

import (
	"cmp"
	"context"
	"crypto/sha256"
	stdsql "database/sql"
	"fmt"
	"maps"
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

// keeper is a trigger of Options.Replaced or Options.Deletes.
type keeper struct {
	option, name string
	mark         string // stands in its text, and in no other's
	statements   []string
}

// keepers returns the triggers of the table that d describes, or tells where it is going to be.
//
// A life is replaced if one write changes both version and created_at, and the row had a created_at
// or was dead: an adoption gives a live row its first. So it is by an application's write that resets the life.
// The life died at its expiry, or when the next began if that was earlier. A life is deleted, or died at its expiry
// before that, if its row is deleted by anyone but a sweeper that hands it over itself.
func (t *table) keepers(desc *description) (all []keeper) {
	d, q := t.dialect, t.dialect.quote
	const old, now = "OLD.", "clock.now_ms"
	key := t.keyColumns()
	for i, kind := range t.keptKinds(desc) {
		if key[i] = old + key[i]; kind == d.types().kept {
			key[i] = d.text(key[i])
		}
	}
	millis := func(c TimeColumn, row string) string { return "COALESCE(" + d.millis(c.Type, row+q(c.Name)) + ", 0)" }
	created, expires, version := millis(t.created, old), millis(t.expires, old), "COALESCE("+old+q(t.version)+", 0)"
	// lived is a if the life ended before its expiry.
	lived := func(until, a, b string) string {
		return "CASE WHEN " + expires + " = 0 OR " + expires + " > " + until + " THEN " + a + " ELSE " + b + " END"
	}
	add := func(option, suffix, event string, of []string, ended, deleted, where string) {
		insert := fmt.Sprintf("INSERT INTO %s (%s, created_at, died_at, version, deleted, value) SELECT %s, %s, %s, %s, %s, %s FROM (SELECT %s AS now_ms) AS clock WHERE ",
			qualified(d, desc.schema, t.made(replacedSuffix)), strings.Join(t.replacedKey(), ", "), strings.Join(key, ", "), created, lived(ended, ended, expires), version, deleted, t.rawValue(old), d.clock())
		// Not the text itself: MariaDB gives it back without comments.
		whole := strings.Join(d.trigger("", "", "", event, of, insert+where), "; ")
		k := keeper{option: option, name: t.made(suffix), mark: fmt.Sprintf("%s%x", markPrefix, sha256.Sum256([]byte(whole)))[:len(markPrefix)+16]}
		k.statements = d.trigger(cmp.Or(desc.schema, t.schema), t.name, k.name, event, of, insert+"'"+k.mark+"' IS NOT NULL AND "+where)
		all = append(all, k)
	}
	if t.keepReplaced {
		next := millis(t.created, "NEW.")
		began := "COALESCE(NULLIF(" + next + ", 0), " + now + ")"
		add("Replaced", replacedSuffix, "UPDATE", []string{q(t.version), q(t.created.Name)}, began, "0",
			fmt.Sprintf("(%s <> COALESCE(NEW.%s, 0) AND %s <> 0 AND %s <> %s OR %s = 0 AND %s = 0) AND (%s <> 0 OR %s <> 0 AND %s <= %s)",
				version, q(t.version), next, next, created, next, millis(t.expires, "NEW."), created, expires, expires, began))
	}
	if t.keepDeleted {
		add("Deletes", deletedSuffix, "DELETE", nil, now, lived(now, "1", "0"), fmt.Sprintf("COALESCE(%s, 0) <> %d", old+q(t.sweep), handedOver))
	}
	return all
}

// markPrefix begins a keeper's mark.
const markPrefix = "slidingttl "

// unasked returns the triggers of this package that no option asks for: turned off, or of the table's name before.
func (t *table) unasked(d *description) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(d.enabled)) {
		text, asked := d.enabled[name], t.keepReplaced && name == t.made(replacedSuffix) || t.keepDeleted && name == t.made(deletedSuffix)
		older := (name == t.made(replacedSuffix) || name == t.made(deletedSuffix)) && strings.Contains(text, t.made(replacedSuffix))
		if !asked && (older || strings.Contains(text, "'"+markPrefix)) {
			names = append(names, name)
		}
	}
	return names
}

// checkUnasked returns an error if there are such.
func (t *table) checkUnasked(d *description) error {
	if names := t.unasked(d); len(names) > 0 {
		return t.invalid("Options.Replaced or Deletes", "not set, with the trigger of one that is", "must be set as when the triggers were made, or lose "+strings.Join(names, ", ")+", as EnsureTable and the statements of Schema drop it: otherwise what it keeps is handed over twice, or never")
	}
	return nil
}

// keptKinds returns the types of that table's key columns. A value that the client reads in another form than text is
// kept in its own type, for Key.Join gets it as from the table itself.
func (t *table) keptKinds(d *description) []string {
	kinds, types := make([]string, len(t.key.Columns)), t.dialect.types()
	for i, name := range t.key.Columns {
		kinds[i] = types.kept
		if is := d.columns[strings.ToLower(name)]; types.retype != "" && t.dialect.keyKind(is).form == typed {
			kinds[i] = is.name
		}
	}
	return kinds
}

// ensureReplaced returns the statements that create that table and its triggers, or bring them up to date.
func (t *table) ensureReplaced(d *description) (all []string) {
	schema := cmp.Or(d.schema, t.schema)
	for _, trigger := range t.unasked(d) {
		all = append(all, t.dialect.dropTrigger(schema, t.name, trigger))
	}
	if d.kept == nil || d.kept.another() {
		return all
	}
	types, name := t.dialect.types(), qualified(t.dialect, schema, t.made(replacedSuffix))
	kinds := append(t.keptKinds(d), types.kept)
	columns, retyped := "", []string(nil)
	for i, c := range append(t.replacedKey(), "value") {
		columns += ", " + c + " " + kinds[i]
		switch is, there := d.kept.columns[c]; {
		case len(d.kept.columns) == 0, there && t.keptIn(is, kinds[i]):
		case !there:
			all = append(all, "ALTER TABLE "+name+" ADD COLUMN "+c+" "+kinds[i])
		case types.retype != "":
			retyped = append(retyped, fmt.Sprintf(types.retype, name, c, kinds[i]))
		default:
			all = append(all, fmt.Sprintf(types.modify, name, c, kinds[i]))
		}
	}
	if len(d.kept.columns) == 0 {
		for _, c := range keptLife {
			columns += ", " + c + " " + types.integer + " NOT NULL"
		}
		all = append(all, "CREATE TABLE IF NOT EXISTS "+name+" (id "+types.serial+columns+")")
	}
	for _, k := range t.keepers(d) {
		if text, there := d.enabled[k.name]; !there || text != "" && !strings.Contains(text, k.mark) {
			all = append(all, k.statements...)
		}
	}
	return append(all, retyped...) // an older trigger's texts go into no other type, but newer values into text
}

// keptLife are the columns that every release's table has.
var keptLife = []string{"created_at", "died_at", "version", "deleted"}

// another reports whether the table is none of this package's.
func (d *description) another() bool {
	return len(d.columns) > 0 && slices.ContainsFunc(keptLife, func(c string) bool { _, there := d.columns[c]; return !there })
}

// keptIn reports whether a column of the table holds what one of a kind does.
func (t *table) keptIn(is columnType, kind string) bool {
	types := t.dialect.types()
	return types.modify == "" && kind == types.kept || strings.EqualFold(is.name, kind)
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
			l.expires.n = cmp.Or(l.expires.n, int64(driver.Floor(t.Now())))
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
	if err := t.checkUnasked(d); err != nil {
		return err
	}
	kinds := append(t.keptKinds(d), t.dialect.types().kept)
	made, mend := t.made(replacedSuffix), ", as EnsureTable and the statements of Schema make it"
	for _, k := range t.keepers(d) {
		text, enabled := d.enabled[k.name]
		switch {
		case len(d.kept.columns) == 0 || d.kept.schema != d.schema || !enabled:
			return t.invalid("Options."+k.option, "without its table, or its trigger enabled", "needs "+made+" in the same schema (PostgreSQL: and none in one before it in search_path), and the trigger "+k.name+mend+" (MySQL: over a connection of utf8mb4)")
		case d.kept.another():
			return t.invalid("Options."+k.option, "with another table of that name", "needs "+made+mend+": rename the table of this name")
		case d.kept.wrong != "":
			return t.invalid("Options."+k.option, "with a table "+d.kept.wrong, "needs in "+made+" a table with transactions, of which this user sees all rows")
		case text != "" && !strings.Contains(text, k.mark):
			return t.invalid("Options."+k.option, "with the trigger of another release, or of other Options", "needs the trigger "+k.name+mend+": otherwise what it hands over lacks columns, or is lost")
		case k.option == "Deletes" && d.silent:
			return t.invalid("Options."+k.option, "with a reference that has ON DELETE CASCADE", "must not be set, or the reference not cascade: this database fires no trigger for the rows that it takes")
		}
		for i, c := range append(t.replacedKey(), "value") {
			if is, there := d.kept.columns[c]; !there || !t.keptIn(is, kinds[i]) {
				return t.invalid("Options."+k.option, fmt.Sprintf("with %s as %q", c, is.name), "needs in "+made+" a column "+c+" of "+kinds[i]+mend+": others lose texts, or refuse them")
			}
		}
	}
	return nil
}
