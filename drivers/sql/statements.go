package sql

import (
	"fmt"
	"strings"
)

// statements are the SQL texts for a table, with their arguments in the order that comments give. K
// are the columns of the key. W is K, then the record's created_at, expires_at and version, then
// the judge's time and the bounds it must lie between. V are the columns of the value. A statement that keeps
// created_at does not name it: the column may be finer than milliseconds.
type statements struct {
	get       string // K
	getTimed  string // K; returns the database's time before the rest
	getMulti  string // without its list of keys; returns the database's time before the rest
	meta      string // K; returns the database's time before the rest
	raw       string // K
	insert    string // K, created_at, expires_at, sweep_at, version, V, judge, expires_at, and the judge with an upsert, which returns the database's time
	renew     string // created_at, expires_at, sweep_at, version, V, W
	renewBy   string // renew of a row that others may refer to by V
	replace   string // expires_at, sweep_at, version, V, W: it keeps created_at
	replaceBy string // replace of a row that others may refer to by V
	forward   string // expires_at, W: a touch that leaves sweep_at unchanged
	forwardIn string // forward in a caller's transaction
	lower     string // expires_at, sweep_at, W: any other that keeps created_at
	touch     string // created_at, expires_at, sweep_at, W
	touchBy   string // touch of a row that others may refer to by created_at
	remove    string // W
	delete    string // K

	// K, created_at, expires_at, sweep_at, version, V, judge, expires_at, dead, dead, end of keep, MaxInt64 - most,
	// most, stored end, MaxInt64 - most, most, dead, now, judge, now. dead is now, and the
	// created_at at or before which a record is past most. Returns the database's time and the life.
	// Empty: not supported.
	overwrite string

	// stored end, MaxInt64 - most, most, K, now, end of keep, MaxInt64 - most, most, judge. Returns
	// the database's time and the row, if a touch was due. Empty: not supported.
	readTouch string

	dies    string // begins a SELECT in a caller's transaction, if only what is dead by it is to be locked
	locks   string // ends a SELECT in a caller's transaction
	upserts bool   // insert also overwrites a dead record
}

func (t *table) statements() statements {
	d := t.dialect
	q := d.quote
	name := t.quoted()
	each := func(names []string, item string) []string {
		all := make([]string, len(names))
		for i, n := range names {
			all[i] = q(n) + item
		}
		return all
	}
	created, expires := t.createdMillis(), t.expiresMillis()
	keys, key := strings.Join(t.keyColumns(), ", "), strings.Join(each(t.key.Columns, " = ?"), " AND ")
	values := each(t.values, "")
	life := strings.Join([]string{created, expires, q(t.version)}, ", ")
	whole := strings.Join(append([]string{life}, values...), ", ")
	from := " FROM " + name + " WHERE "
	clock := d.clock()
	time := "COALESCE(" + d.integer() + ", " + clock + ")" // the judge's time
	isFor := func(keys bool) string {
		return d.locked(name, t.keyColumns(), key+" AND COALESCE("+created+", 0) = ? AND COALESCE("+expires+", 0) = ? AND COALESCE("+q(t.version)+", 0) = ?", keys) +
			" AND " + time + " BETWEEN ? AND ?"
	}
	is := isFor(false)

	setCreated := q(t.created.Name) + " = " + d.written(t.created.Type, "?")
	setExpires := q(t.expires.Name) + " = " + d.written(t.expires.Type, "?")
	setSweep := q(t.sweep) + " = " + d.lesser(q(t.sweep), d.integer())
	set := func(s ...string) string { return "UPDATE " + name + " SET " + strings.Join(s, ", ") + " WHERE " }

	insert := "INSERT INTO " + name + " (" + t.ownColumns() + ") SELECT " +
		listed("?", len(t.key.Columns)) + ", " + d.written(t.created.Type, "?") + ", " + d.written(t.expires.Type, "?") + ", " +
		listed("?", 2+len(values)) + d.types().from + " WHERE " + time + " < " + d.integer()
	overwritten := append([]string{t.created.Name, t.expires.Name, t.sweep, t.version}, t.values...)
	for i, c := range overwritten {
		overwritten[i] = q(c) + " = " + d.excluded(c)
	}
	old := func(c string) string { return name + "." + q(c) }
	oldCreated, oldExpires := d.millis(t.created.Type, old(t.created.Name)), d.millis(t.expires.Type, old(t.expires.Name))
	overdue := oldExpires + " <= " + time
	upsert := d.upsert(t.key.Columns, overwritten, oldExpires+" <> 0 AND "+overdue)

	// A live record without created_at or expiry fails the condition below.
	ifDead := func(column, otherwise string) string {
		return q(column) + " = CASE WHEN " + oldExpires + " <= ? OR " + oldCreated + " <= ? THEN " + d.excluded(column) + otherwise + " ELSE " + old(column) + " END"
	}
	oldLimit := d.lesser(oldCreated, d.integer()) + " + " + d.integer()
	kept := append([]string{
		ifDead(t.created.Name, ""),
		ifDead(t.expires.Name, " WHEN "+oldExpires+" < "+d.lesser(d.integer(), oldLimit)+
			" THEN "+d.written(t.expires.Type, d.lesser(d.integer(), oldLimit))),
		ifDead(t.sweep, ""),
	}, overwritten[3:]...)
	// Use the database's time only once, because it advances: it must agree with the caller's.
	overwrite := d.upsert(t.key.Columns, kept, oldExpires+" <> 0 AND ("+oldExpires+" <= ?) = ("+overdue+") AND ("+oldExpires+" <= ? OR "+oldCreated+" <> 0)")
	if overwrite != "" {
		overwrite = insert + overwrite + " RETURNING " + clock + ", " + life
	}

	limit := d.lesser(created, d.integer()) + " + " + d.integer()
	due := d.locked(name, t.keyColumns(), key+" AND COALESCE("+created+", 0) <> 0 AND "+expires+" > ? AND "+expires+" < "+d.lesser(d.integer(), limit), false) +
		" AND " + expires + " > " + time
	update := set(q(t.expires.Name)+" = "+d.written(t.expires.Type, d.lesser(d.integer(), limit))) + due
	replaced := append([]string{setExpires, setSweep, q(t.version) + " = ?"}, each(t.values, " = ?")...)
	replace, renew := set(replaced...), set(append([]string{setCreated}, replaced...)...)
	s := statements{
		get:       "SELECT " + whole + from + key,
		getTimed:  "SELECT " + clock + ", " + whole + from + key,
		locks:     d.types().locks,
		getMulti:  "SELECT " + clock + ", " + keys + ", " + whole + from + t.keyTuple() + " IN ",
		meta:      "SELECT " + clock + ", " + life + from + key,
		upserts:   upsert != "",
		insert:    insert + upsert,
		overwrite: overwrite,
		renew:     renew + is,
		renewBy:   renew + isFor(true),
		replace:   replace + is,
		replaceBy: replace + isFor(true),
		forward:   set(setExpires) + is + d.unsynced(t.syncTouches),
		forwardIn: set(setExpires) + is,
		lower:     set(setExpires, setSweep) + is,
		touch:     set(setCreated, setExpires, setSweep) + is,
		touchBy:   set(setCreated, setExpires, setSweep) + isFor(true),
		remove:    "DELETE" + from + isFor(true),
		delete:    "DELETE" + from + key,
	}
	if s.upserts {
		s.readTouch = update + d.unsynced(t.syncTouches) + " RETURNING " + clock + ", " + whole
		s.insert += " RETURNING " + clock
	}
	if dies := d.types().dies; dies != "" {
		s.dies = "SELECT " + fmt.Sprintf(dies, expires) + ","
	}
	s.raw = "SELECT " + life + ", " + strings.Join(t.rawColumns(), ", ") + from + key
	for _, text := range []*string{&s.get, &s.getTimed, &s.meta, &s.raw, &s.insert, &s.overwrite, &s.renew, &s.renewBy, &s.replace, &s.replaceBy, &s.forward, &s.forwardIn, &s.lower, &s.touch, &s.touchBy, &s.remove, &s.delete, &s.readTouch} {
		*text = d.bind(*text)
	}
	return s
}

// createdMillis and expiresMillis read a life in milliseconds.
func (t *table) createdMillis() string {
	return t.dialect.millis(t.created.Type, t.dialect.quote(t.created.Name))
}

func (t *table) expiresMillis() string {
	return t.dialect.millis(t.expires.Type, t.dialect.quote(t.expires.Name))
}

// expiresOrNone is expiresMillis, with NULL for no expiry.
func (t *table) expiresOrNone() string { return "NULLIF(" + t.expiresMillis() + ", 0)" }

// expiresOrNever is expiresMillis, with the last instant for no expiry.
func (t *table) expiresOrNever() string {
	return fmt.Sprintf("COALESCE(%s, %d)", t.expiresOrNone(), never)
}

// ownColumns lists the columns that the driver uses.
func (t *table) ownColumns() string {
	own := t.keyColumns()
	for _, c := range append([]string{t.created.Name, t.expires.Name, t.sweep, t.version}, t.values...) {
		own = append(own, t.dialect.quote(c))
	}
	return strings.Join(own, ", ")
}

// rawColumns are the expressions for a record in the database's own form.
func (t *table) rawColumns() []string {
	q, text := t.dialect.quote, t.dialect.text
	return []string{text(q(t.created.Name)), text(q(t.expires.Name)), text(q(t.sweep)), text(q(t.version)), t.rawValue("")}
}

// rawValue is the expression for a value in the database's own form, row as in object.
func (t *table) rawValue(row string) string {
	switch {
	case len(t.values) == 0:
		return "NULL"
	case t.json:
		return t.dialect.text(row + t.dialect.quote(t.values[0]))
	}
	return t.dialect.object(row, t.values)
}

// quoted is the table's name in a statement.
func (t *table) quoted() string { return qualified(t.dialect, t.schema, t.name) }

// keyTuple is the left side of a comparison with tuples.
func (t *table) keyTuple() string {
	names := t.keyColumns()
	if len(names) == 1 {
		return names[0]
	}
	return "(" + strings.Join(names, ", ") + ")"
}

func (t *table) keyColumns() []string {
	names := make([]string, len(t.key.Columns))
	for i, c := range t.key.Columns {
		names[i] = t.dialect.quote(c)
	}
	return names
}

// keyList is the list of keys for IN. It repeats the last key up to a power of two, so that there
// are few different statements, and a single one of several columns: MariaDB's UPDATE and DELETE go through the whole
// table for a list of one tuple, and lock it.
func (t *table) keyList(keys []rowKey) (list string, args []any) {
	n := min(2, len(t.key.Columns))
	for n < len(keys) {
		n *= 2
	}
	args = make([]any, 0, n*len(t.key.Columns))
	for i := range n {
		args = append(args, keys[min(i, len(keys)-1)].columns...)
	}
	list = tuples(n, len(t.key.Columns))
	if len(t.key.Columns) > 1 {
		list = t.dialect.types().tuples + list
	}
	return "(" + list + ")", args
}
