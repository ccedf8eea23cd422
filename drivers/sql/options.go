package sql

import (
	"cmp"
	stdsql "database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TimeType is the type of a column that holds an instant.
type TimeType int

const (
	// Millis is a BIGINT (INTEGER in SQLite) of milliseconds since the Unix epoch.
	Millis TimeType = iota

	// Timestamp is a type that holds an instant independent of the session's time zone: timestamptz
	// in PostgreSQL, TIMESTAMP(3) in MySQL, in SQLite a TEXT that its date functions read.
	Timestamp

	// DateTime is a type without a time zone, taken as UTC: timestamp in PostgreSQL, DATETIME(3) in
	// MySQL, in SQLite a TEXT.
	DateTime
)

// TimeColumn is a column that holds an instant.
type TimeColumn struct {
	Name string
	Type TimeType
}

// Row maps a T to columns of the application's own.
type Row[T any] struct {
	// Columns are the columns' names.
	Columns []string

	// Fields returns a pointer into *v for each column. Rows.Scan writes to it, and a statement's
	// argument is read from it. A column that may be NULL needs a field that takes it: a pointer,
	// or a sql.Null. Fields must be pure.
	Fields func(v *T) []any
}

// Options adjusts a Driver. The zero value, and a nil pointer, mean the defaults.
type Options[T any] struct {
	// Key is the table's primary key. Zero: a text column "id", which is the
	// record's key as it is.
	Key Key

	// Value is the column that holds a T as JSON. Empty: "value".
	Value string

	// Row keeps a T in columns of its own instead of Value. Zero: Value is used.
	Row Row[T]

	// LifeOnly leaves values to the application's own SQL, as under slidingttl.Wrap: the driver
	// reads and writes only the life, returns zero values, and Insert creates a row of the key and
	// the life alone.
	LifeOnly bool

	// CreatedAt and ExpiresAt are the columns of a record's life. Empty names:
	// "created_at" and "expires_at".
	CreatedAt, ExpiresAt TimeColumn

	// SweepAt and Version are the columns that are the driver's own, both BIGINT.
	// Empty: "sweep_at" and "version".
	SweepAt, Version string

	// MaxKey is the longest key in bytes. Zero: 255, which is what EnsureTable
	// makes room for.
	MaxKey int

	// Retain is how long a dead row is kept after its expiry, before a Sweeper of this driver
	// deletes it: for a Store's History, and for archives. All calls use the expiry. A Sweeper
	// goes by its own Retain, also for what others retained. Zero: until a sweeper's next run. A reader whose clock is behind may
	// expect a record that is already swept, so Retain should be at least that skew.
	Retain time.Duration

	// Replaced keeps a dead life that the key's next life replaces before a Sweeper took it, and
	// hands it to SweepOptions.Bury like the others: in the transaction that replaces it, a trigger
	// writes it into a second table, named after the first with "_replaced" (and a hash if that is longer than 63 bytes). EnsureTable creates
	// both; writers need the right to insert there. An application's own write ends a life, dead or alive, if it
	// sets created_at and the expiry to NULL. False: such a life is lost.
	Replaced bool

	// Deletes keeps each row that is deleted by anything but a Sweeper with Bury, be it another program, in the same
	// table by another trigger, and hands it to SweepOptions.Bury: if it was alive, as one that died
	// then, with Dead.Deleted. Such a Sweeper writes each dead row once more before it deletes it. Every process
	// that sweeps or calls EnsureTable must set it alike, and Replaced too: EnsureTable and the statements of Schema
	// drop what is not asked for, and until then a sweep with Bury is driver.ErrInvalid. A harvest hands a life over twice.
	// False: deletes are not recorded.
	Deletes bool

	// SyncTouches makes touches wait for their commit. On PostgreSQL a touch that only moves an expiry
	// forward does not, outside of a transaction of the application: a crash of the server may take
	// the touches of its last moment (three times wal_writer_delay), never a row or another write.
	// Other databases have no such setting for one statement.
	SyncTouches bool

	// MaxSkew is how far the system's clock may differ from the database's before Check reports it, and
	// how long beyond Retain a Sweeper leaves a dead row: a process may not have learned the
	// database's time yet, which else is the driver's own clock. Zero: 1 min.
	MaxSkew time.Duration
}

const (
	defaultMaxKey  = 255
	defaultMaxSkew = time.Minute

	// maxName is the lowest limit on a name in bytes, PostgreSQL's.
	maxName = 63
)

func invalidOption(field, value, rule string) error {
	return &driver.InvalidError{Field: "Options." + field, Value: value, Rule: rule}
}

// validate returns o with its defaults filled in.
func (o Options[T]) validate() (Options[T], error) {
	own := len(o.Row.Columns) > 0
	for _, f := range []struct {
		name *string
		def  string
	}{{&o.CreatedAt.Name, "created_at"}, {&o.ExpiresAt.Name, "expires_at"}, {&o.SweepAt, "sweep_at"}, {&o.Version, "version"}} {
		*f.name = cmp.Or(*f.name, f.def)
	}
	var err error
	if o.Key, err = o.Key.validate(); err != nil {
		return o, err
	}
	switch {
	case own != (o.Row.Fields != nil):
		return o, invalidOption("Row", "half set", "must have Columns and Fields, or neither")
	case own && o.Value != "":
		return o, invalidOption("Value", fmt.Sprintf("%q", o.Value), "must be empty where Row is set")
	case o.LifeOnly && (own || o.Value != ""):
		return o, invalidOption("LifeOnly", "true", "must not be set beside Value or Row")
	case !o.LifeOnly && !own && o.Value == "":
		o.Value = "value"
	}
	if own {
		if n := len(o.Row.Fields(new(T))); n != len(o.Row.Columns) {
			return o, invalidOption("Row.Fields", fmt.Sprintf("%d pointers", n), fmt.Sprintf("must return one for each of %d Columns", len(o.Row.Columns)))
		}
	}
	for _, c := range []struct {
		field string
		t     TimeType
	}{{"CreatedAt.Type", o.CreatedAt.Type}, {"ExpiresAt.Type", o.ExpiresAt.Type}} {
		if c.t < Millis || c.t > DateTime {
			return o, invalidOption(c.field, fmt.Sprint(int(c.t)), "must be Millis, Timestamp or DateTime")
		}
	}
	err = cmp.Or(atLeast0("Options.MaxKey", o.MaxKey), atLeast0("Options.Retain", o.Retain), atLeast0("Options.MaxSkew", o.MaxSkew))
	if err != nil {
		return o, err
	}
	o.MaxKey, o.MaxSkew = cmp.Or(o.MaxKey, defaultMaxKey), cmp.Or(o.MaxSkew, defaultMaxSkew)
	return o, o.checkNames()
}

func (o *Options[T]) values() []string {
	switch {
	case o.LifeOnly:
		return nil
	case o.Value != "":
		return []string{o.Value}
	}
	return o.Row.Columns
}

// fieldKind is what a value's column must hold.
type fieldKind int

const (
	opaque  fieldKind = iota // of a type that converts itself, or bytes
	textual                  // sent as a text
	boolean
	dated    // a time.Time
	ownBytes // bytes of a type of their own, which database/sql reads only from bytes
	composed // of another type
	integral // a number without a fraction
	floating
)

// kinds are those of the values.
func (o *Options[T]) kinds() []fieldKind {
	if o.Row.Fields == nil {
		return []fieldKind{textual}
	}
	fields := o.Row.Fields(new(T))
	are := make([]fieldKind, len(fields))
	for i, field := range fields {
		if is := bare(reflect.TypeOf(field)); is != nil { // nil: a field without a type
			are[i] = kindOf(is)
		}
	}
	return are
}

// bare returns what pointers, or database/sql's Null, hold.
func bare(is reflect.Type) reflect.Type {
	for is != nil && is.Kind() == reflect.Pointer {
		is = is.Elem()
	}
	if is != nil && is.PkgPath() == "database/sql" && is.Kind() == reflect.Struct && strings.HasPrefix(is.Name(), "Null") {
		is = is.Field(0).Type
	}
	return is
}

// scans reports whether a Scan of a bare type's own reads it.
func scans(is reflect.Type) bool {
	return reflect.PointerTo(is).Implements(reflect.TypeFor[stdsql.Scanner]())
}

// kindOf is that of a bare type.
func kindOf(is reflect.Type) fieldKind {
	switch {
	case is == reflect.TypeFor[time.Time]():
		return dated
	case reflect.PointerTo(is).Implements(reflect.TypeFor[sqldriver.Valuer]()):
		return opaque
	case is.Kind() == reflect.String:
		return textual
	case scans(is):
		return opaque
	}
	switch is.Kind() {
	case reflect.Bool:
		return boolean
	case reflect.Float32, reflect.Float64:
		return floating
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return integral
	case reflect.Interface:
		return opaque
	case reflect.Slice:
		switch {
		case is == reflect.TypeFor[[]byte]():
			return opaque
		case is.Elem().Kind() == reflect.Uint8:
			return ownBytes
		}
	}
	return composed
}

func (o *Options[T]) checkNames() error {
	type name struct{ field, name string }
	names := []name{
		{"CreatedAt", o.CreatedAt.Name}, {"ExpiresAt", o.ExpiresAt.Name}, {"SweepAt", o.SweepAt}, {"Version", o.Version},
	}
	for i, c := range o.Key.Columns {
		names = append(names, name{fmt.Sprintf("Key.Columns[%d]", i), c})
	}
	for i, c := range o.values() {
		field := "Value"
		if o.Value == "" {
			field = fmt.Sprintf("Row.Columns[%d]", i)
		}
		names = append(names, name{field, c})
	}
	seen := make(map[string]string, len(names))
	for _, n := range names {
		if rule := checkName(n.name); rule != "" {
			return invalidOption(n.field, fmt.Sprintf("%q", n.name), rule)
		}
		folded := strings.ToLower(n.name)
		if other, ok := seen[folded]; ok {
			return invalidOption(n.field, fmt.Sprintf("%q", n.name), "must differ from Options."+other)
		}
		seen[folded] = n.field
	}
	return nil
}

// checkName returns the rule that a table's or column's name breaks. It is stricter than the
// databases, so that no name needs care in a statement.
func checkName(name string) string {
	switch {
	case name == "":
		return "must not be empty"
	case len(name) > maxName:
		return fmt.Sprintf("must be at most %d bytes", maxName)
	case strings.ContainsAny(name, "?.\"`\\\x00"):
		return "must not contain ? . \" ` \\ or NUL"
	}
	return ""
}
