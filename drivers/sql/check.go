package sql

import (
	"context"
	stdsql "database/sql"
	sqldriver "database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Check implements driver.Checker, by the database's catalogue.
//
// It makes a few SELECTs, and an EXPLAIN of each statement that writes. It requires that the table has the columns, each of a type that can
// hold its values, a unique key and an index on sweep_at; that the database takes the driver's
// writes, and that its settings keep the driver's promises; and that the system's clock is within
// Options.MaxSkew of the database's. Only MySQL's TIMESTAMP, which ends in 2038, has a longest time to live.
func (t *table) Check(ctx context.Context, longest time.Duration) error {
	settings := t.dialect.settings(ctx, t.db, []TimeType{t.created.Type, t.expires.Type})
	if settings != nil && !errors.Is(settings, driver.ErrInvalid) {
		return t.failed(ctx, settings)
	}
	desc, err := t.describe(ctx)
	if err != nil {
		return t.failed(ctx, errors.Join(settings, err))
	}
	keyed := slices.ContainsFunc(desc.keyed, func(c string) bool {
		return slices.ContainsFunc(append([]string{t.created.Name, t.version}, t.values...), func(v string) bool { return strings.ToLower(v) == c })
	})
	t.keyed.Store(&keyed)
	var unnamed []string
	for _, name := range t.key.Columns {
		if desc.columns[strings.ToLower(name)].null {
			unnamed = append(unnamed, t.dialect.quote(name)+" IS NULL")
		}
	}
	unkeyed := strings.Join(unnamed, " OR ")
	t.unkeyed.Store(&unkeyed)
	var none [2]any
	for i, c := range []TimeColumn{t.created, t.expires} {
		if c.Type == Millis && !desc.columns[strings.ToLower(c.Name)].null {
			none[i] = int64(0)
		}
	}
	t.none.Store(&none)
	sent := make([]keyKind, len(t.values))
	for i, name := range t.values {
		if sent[i] = t.dialect.valueKind(desc.columns[strings.ToLower(name)]); t.json || t.fields[i] != textual {
			sent[i] = keyKind{isText: sent[i].isText && !t.json, zoneless: sent[i].zoneless}
		}
	}
	t.sent.Store(&sent)
	if t.dialect.types().inProcess {
		affinities := make([]affinity, len(t.values))
		for i, name := range t.values {
			affinities[i] = sqlite{}.affinity(desc.columns[strings.ToLower(name)])
		}
		t.affinities.Store(&affinities)
	}
	key := t.checkKey(ctx, desc)
	if key != nil && !errors.Is(key, driver.ErrInvalid) {
		return key
	}
	at, err := t.ask(ctx)
	if err != nil {
		return err
	}
	found := errors.Join(t.checkTable(desc), key, settings, at.CheckSkew("the server", t.maxSkew), t.checkReplaced(desc))
	if ends := t.dialect.types().ends; ends != 0 && t.expires.Type == Timestamp && driver.Floor(t.Now()).Add(longest) > ends {
		found = errors.Join(found, t.invalid(fmt.Sprintf("column %q", t.expires.Name), "a TIMESTAMP", fmt.Sprintf("must hold an expiry in %s, but ends in 2038: DATETIME(3), BIGINT", longest)))
	}
	if found == nil {
		found = t.checkFields(ctx, desc)
	}
	if found == nil {
		found = t.checkStatements(ctx)
	}
	return found
}

// refusals are the settings that Check finds wrong.
type refusals []error

func (r *refusals) when(wrong bool, field, value, rule string) {
	if wrong {
		*r = append(*r, &driver.InvalidError{Field: field, Value: value, Rule: rule})
	}
}

// description is a table as the database's catalogue describes it.
type description struct {
	columns map[string]columnType // by name in lower case
	indexes []index
	parts   []string          // a partitioned table's parts with rows, as they stand in statements
	invalid []invalidIndex    // of which the creation was cancelled
	enabled map[string]string // triggers that fire, and their texts; empty: this user may not see it
	kept    *description      // the table of Options.Replaced and Options.Deletes; nil: these are off
	wrong   string            // what the table is that it must not be; empty: nothing
	rivals  []index           // unique, deferrable or by a collation of their own, which an upsert takes for the key's
	keyed   []string          // columns that are locked like a key when they change
	schema  string            // where it is, or would be made, if triggers are to name it
	silent  bool              // has triggers, and a reference that takes its rows without firing one
}

type columnType struct {
	name   string // in lower case
	digits int    // digits of a second's fraction; negative: the type's maximum
	moves  bool   // the database sets it, when others of the row are written
	null   bool   // it may be NULL
	filled bool   // an INSERT may leave it out, and it is not NULL: by a default, or perhaps a trigger
	cast   string // the type in a cast (PostgreSQL)
	twin   bool   // another column has this one's name in other letters (PostgreSQL)
}

// invalidIndex is an index as it stands in DROP INDEX, and its first column.
type invalidIndex struct{ drop, column string }

// index is an index that covers all rows.
type index struct {
	unique  bool
	columns []string
}

// describe runs a query for columns, one for indexes, and one for triggers.
func describe(ctx context.Context, db *stdsql.DB, columns, indexes, triggers string, args ...any) (*description, error) {
	d := &description{columns: make(map[string]columnType), enabled: make(map[string]string)}
	err := each(ctx, db, columns, args, func(scan func(...any) error) error {
		var name string
		var c columnType
		if err := scan(&name, &c.name, &c.digits, &c.moves, &c.null, &c.filled, &c.cast); err != nil {
			return err
		}
		c.name = strings.ToLower(c.name)
		_, c.twin = d.columns[strings.ToLower(name)]
		d.columns[strings.ToLower(name)] = c
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, db, triggers, args, func(scan func(...any) error) error {
		var name, text string
		err := scan(&name, &text)
		d.enabled[name] = text
		return err
	})
	if err != nil {
		return nil, err
	}
	d.indexes, err = listIndexes(ctx, db, indexes, args)
	return d, err
}

func listIndexes(ctx context.Context, db *stdsql.DB, query string, args []any) (all []index, err error) {
	last := ""
	err = each(ctx, db, query, args, func(scan func(...any) error) error {
		var id, column string
		var unique bool
		if err := scan(&id, &unique, &column); err != nil {
			return err
		}
		if id != last || len(all) == 0 {
			all = append(all, index{unique: unique})
			last = id
		}
		of := &all[len(all)-1]
		of.unique = of.unique && unique // a part may be a prefix, or of another collation
		of.columns = append(of.columns, strings.ToLower(column))
		return nil
	})
	return all, err
}

// each runs a query and calls f for each row.
func each(ctx context.Context, db interface {
	QueryContext(context.Context, string, ...any) (*stdsql.Rows, error)
}, query string, args []any, f func(scan func(...any) error) error) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (t *table) describe(ctx context.Context) (*description, error) {
	d, err := t.dialect.describe(ctx, t.db, t.schema, t.name)
	if err == nil && (t.keepReplaced || t.keepDeleted) {
		if d.kept, err = t.dialect.describe(ctx, t.db, t.schema, t.made(replacedSuffix)); err == nil && d.kept.schema != d.schema {
			d.kept.columns = nil // another table's, of another schema
		}
	}
	return d, err
}

func (t *table) invalid(what, value, rule string) error {
	return &driver.InvalidError{Field: fmt.Sprintf("table %s: %s", t.name, what), Value: value, Rule: rule}
}

// checkKey checks that no key column takes two different texts for the same, or changes one.
func (t *table) checkKey(ctx context.Context, d *description) error {
	kinds := make([]keyKind, len(t.key.Columns))
	for i, name := range t.keyColumns() {
		is, there := d.columns[strings.ToLower(t.key.Columns[i])]
		if !there {
			continue
		}
		what := "column " + name
		kinds[i] = t.dialect.keyKind(is)
		probes := []struct{ what, a, b string }{
			{"case", "a", "A"},
			{"trailing spaces", "a", "a "},
			{"accents", "a", "\u00e1"},
			{"the encoding of an accent", "\u00e1", "a\u0301"},
			{"zero-width characters", "a", "a\u00ad"},
		}
		if kinds[i].form == wholeNumber {
			probes = nil
		}
		for _, pair := range probes {
			var n int
			err := t.db.QueryRowContext(ctx, t.dialect.bind(fmt.Sprintf(
				"SELECT COUNT(*) FROM (SELECT %s AS probe FROM %s WHERE 1 = 0 UNION ALL SELECT ?) AS probes WHERE probe = ?", name, t.quoted())), pair.a, pair.b).Scan(&n)
			if v := t.dialect.verdict(err); err != nil && (v == impossible || v == refused || v == objected) {
				break // the column cannot hold this text
			}
			switch {
			case err != nil:
				return t.failed(ctx, err)
			case n > 0:
				return t.invalid(what, "of a type or collation for which different keys are equal", "must distinguish keys that differ in "+pair.what+
					": text COLLATE \"C\", VARBINARY or TEXT COLLATE BINARY")
			}
		}
		if k := kinds[i]; k.form == unfit || t.key.Split == nil && (k.width > 0 || k.form != anyText && k.form != uuidText) {
			return t.invalid(what, is.name, "must hold any text as it is, such as "+t.dialect.types().key(t.maxKey))
		}
	}
	t.kinds.Store(&kinds)
	return nil
}

// keyKind is which texts a key's column holds as they are.
type keyKind struct {
	form  keyForm
	most  int  // it cuts spaces beyond so many characters; negative: it may cut those at the end of so many or more; zero: nothing
	width int  // it pads a text to so many bytes; zero: not at all
	chars int  // it pads a text to so many characters; zero: not at all
	scale int  // digits after a number's point; negative: any
	last  rune // of its character set; zero: all
	bits  int  // of the numbers that it holds, where another would become a different one or not be sent; zero: the server refuses it

	isText   bool // of the value's columns: bytes are to be sent as a text
	zoneless bool // of the value's columns: it takes a time in whatever zone for one in UTC
	counts   bool // it takes zero, or nothing, for its next number
}

type keyForm int

const (
	unfit       keyForm = iota // not known to hold any
	anyText                    // all, but for most and width
	wholeNumber                // whole numbers
	uuidText
	typed // none: a value of the column's type must be given, which has one spelling
)

// check returns the rule that an argument for the column breaks.
func (k keyKind) check(arg any) string {
	if k == (keyKind{form: anyText}) {
		return ""
	}
	s, isText, isNumber := sentText(arg)
	switch {
	case k.width > 0 && len(s) != k.width:
		return fmt.Sprintf("must be %d bytes, to which the column pads", k.width)
	case k.chars > 0 && utf8.RuneCountInString(s) != k.chars:
		return fmt.Sprintf("must be %d characters, to which the column pads", k.chars)
	case k.most < 0 && strings.HasSuffix(s, " ") && utf8.RuneCountInString(s) >= -k.most:
		return "must not end in a space, which the column may cut"
	case k.most > 0 && utf8.RuneCountInString(s) > k.most:
		return fmt.Sprintf("must be at most %d characters: the column cuts spaces beyond", k.most)
	case k.last > 0 && strings.ContainsFunc(s, func(r rune) bool { return r > k.last }):
		return "must be of the column's character set"
	case k.counts && (s == "0" || !isText && !isNumber):
		return "must be a number other than 0, for which AUTO_INCREMENT gives the next one unless sql_mode has NO_AUTO_VALUE_ON_ZERO"
	case k.form == wholeNumber && (isText || isNumber):
		digits := strings.TrimPrefix(s, "-")
		if whole, fraction, point := strings.Cut(digits, "."); k.scale != 0 {
			if point != (fraction != "") || k.scale > 0 && len(fraction) != k.scale || strings.Trim(s, "-0.") == "" && digits != s || strings.Trim(fraction, "0123456789") != "" {
				return "must be a number, as the column writes it"
			}
			digits, s = whole, whole
		}
		if digits == "" || strings.Trim(digits, "0123456789") != "" || digits[0] == '0' && s != "0" {
			return "must be a whole number, as the column writes it"
		}
		if _, err := strconv.ParseInt(s, 10, k.bits); err != nil && k.bits > 0 {
			return fmt.Sprintf("must fit into the column's %d bits", k.bits)
		}
	case isText && k.form == uuidText:
		b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
		if err != nil || len(b) != 16 || fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]) != s {
			return "must be a UUID in lower case with hyphens, as the column writes it"
		}
	case k.form == typed && reflect.ValueOf(arg).Kind() == reflect.String:
		return "must be split into a value of the column's type, such as []byte: a text of it has several spellings"
	}
	return ""
}

// sentText is a text, bytes or a whole number as a client sends it, whatever its type prints.
func sentText(arg any) (s string, isText, isNumber bool) {
	v, err := sqldriver.DefaultParameterConverter.ConvertValue(arg)
	switch v := v.(type) {
	case string:
		return v, true, false
	case []byte:
		return string(v), false, false
	case int64:
		return strconv.FormatInt(v, 10), false, true
	}
	if of := reflect.ValueOf(arg); err != nil && of.CanUint() { // beyond int64, which only some clients send
		return strconv.FormatUint(of.Uint(), 10), false, true
	}
	return "", false, false
}

// checkStatements has the database plan the driver's statements, which it does by the rights, keys
// and types that executing them needs.
func (t *table) checkStatements(ctx context.Context) error {
	if lock := t.dialect.types().lock; lock != "" { // rights of SQLite are those of its file
		tx, err := t.begin(ctx)
		if err != nil {
			return t.unplanned(ctx, err)
		}
		_ = tx.Rollback()
	}
	s := &t.sql
	sweep, _ := (&Sweeper{table: t}).taking("<= 0", 1)
	texts := []string{s.insert, s.overwrite, s.renew, s.forward, s.touch, s.remove, s.delete, s.readTouch, s.get, t.dialect.bind(sweep)}
	if t.keepReplaced || t.keepDeleted {
		kept := t.replacedTable()
		texts = append(texts, t.dialect.take("id", "id", " FROM "+kept+" LIMIT 1"), "DELETE FROM "+kept+" WHERE id = 0")
		if _, definers := t.dialect.(mysql); !definers { // where triggers have the rights of who made them
			texts = append(texts, "INSERT INTO "+kept+" (created_at, died_at, version, deleted) VALUES (0, 0, 0, 0)")
		}
	}
	for _, text := range texts {
		if text == "" {
			continue
		}
		rows, err := t.db.QueryContext(ctx, "EXPLAIN "+text, make([]any, t.dialect.arguments(text))...)
		if err != nil {
			return t.unplanned(ctx, err)
		}
		_ = rows.Close()
		if err := rows.Err(); err != nil {
			return t.unplanned(ctx, err)
		}
	}
	return nil
}

func (t *table) unplanned(ctx context.Context, err error) error {
	switch t.dialect.verdict(err) {
	case unknown, collided, unsent, tooSlow, timedOut:
		return t.failed(ctx, err)
	}
	return &driver.InvalidError{Field: "table " + t.name, Value: "refused", Rule: "must take the driver's statements, from this user", Err: err}
}

func (t *table) checkTable(d *description) error {
	if len(d.columns) == 0 {
		return t.invalid("name", "unknown", "must be a table of the database")
	}
	var errs []error
	if d.wrong != "" {
		errs = append(errs, t.invalid("kind", d.wrong, "must be a table with transactions, without rules and children, of which this user sees all rows"))
	}
	column := func(name string, fits func(columnType) bool, rule string) {
		c, ok := d.columns[strings.ToLower(name)]
		switch {
		case !ok:
			errs = append(errs, t.invalid(fmt.Sprintf("column %q", name), "missing", "must be there"))
		case c.moves:
			errs = append(errs, t.invalid(fmt.Sprintf("column %q", name), "set by ON UPDATE, or GENERATED", "must hold what was written"))
		case fits != nil && !fits(c):
			errs = append(errs, t.invalid(fmt.Sprintf("column %q", name), c.name, rule))
		}
	}
	types := t.dialect.types()
	for _, c := range []TimeColumn{t.created, t.expires} {
		fits := func(is columnType) bool { return t.dialect.fits(c.Type, is) }
		mend := append(t.mend(c), "or set Options to its type")
		column(c.Name, fits, "must be "+types.times[c.Type]+", with milliseconds: "+strings.Join(mend, ", "))
	}
	column(t.sweep, func(is columnType) bool { return t.dialect.integerType(is) && (!is.null || is.filled) }, "must be "+types.integer+" NOT NULL DEFAULT 0: the sweeper finds no row where it is NULL")
	column(t.version, t.dialect.integerType, "must be "+types.integer)
	for i, name := range t.values {
		column(name, func(is columnType) bool {
			return t.dialect.holds(is, t.json, t.fields[i])
		}, "must hold what was written: JSON as "+types.value+", a string as text, a whole number as BIGINT, a float as DOUBLE (PostgreSQL: double precision, a float32 real too), a time.Time as DATETIME(3) (PostgreSQL: timestamptz), bytes of a type of their own as text or bytes, or as a type that is a Valuer and a Scanner; SQLite's bool in no REAL and its time.Time in DATE, DATETIME or TIMESTAMP, bytea with bytea_output=hex, and zero without AUTO_INCREMENT")
	}
	key := make([]string, len(t.key.Columns))
	for i, name := range t.key.Columns {
		column(name, nil, "")
		key[i] = strings.ToLower(name)
	}
	slices.Sort(key)
	for _, name := range slices.Sorted(maps.Keys(d.columns)) {
		c := d.columns[name]
		if c.twin {
			errs = append(errs, t.invalid(fmt.Sprintf("column %q", name), "beside one of that name in other letters", "must have a name of its own, whatever its case"))
		}
		if len(t.values) > 0 && !c.null && !c.filled && !strings.Contains(strings.ToLower(t.ownColumns()), t.dialect.quote(name)) {
			errs = append(errs, t.invalid(fmt.Sprintf("column %q", name), "NOT NULL", "must have a default, or be in Options.Row: the driver inserts rows without it"))
		}
	}
	ofKey := func(i index) bool { return i.unique && slices.Equal(slices.Sorted(slices.Values(i.columns)), key) }
	if slices.ContainsFunc(d.rivals, ofKey) {
		errs = append(errs, t.invalid("key", "with a unique index besides that is deferrable or ignores case or accents", "must have no such index on "+strings.Join(t.key.Columns, ", ")+": a write would take another key's row, or fail"))
	}
	for _, name := range []string{t.expires.Name, t.sweep} {
		if slices.Contains(d.keyed, strings.ToLower(name)) {
			errs = append(errs, t.invalid(fmt.Sprintf("column %q", name), "in a unique index", "must be in none: touches would deadlock with transactions that refer to the row"))
		}
	}
	if !slices.ContainsFunc(d.indexes, ofKey) {
		errs = append(errs, t.invalid("key", "not unique", "must have a primary key or a unique index on "+strings.Join(t.key.Columns, ", ")+", whole and not hashed"))
	}
	if !slices.ContainsFunc(d.indexes, func(i index) bool { return i.columns[0] == strings.ToLower(t.sweep) }) {
		errs = append(errs, t.invalid(fmt.Sprintf("column %q", t.sweep), "without an index", "must have one, by which the sweeper finds what is dead"))
	}
	return errors.Join(errs...)
}
