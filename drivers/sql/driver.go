package sql

import (
	"context"
	stdsql "database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/internal/client"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Driver keeps records of type T in a table. It implements [driver.Driver],
// [driver.Overwriter], [driver.ReadToucher], [driver.BatchGetter], [driver.Remover],
// [driver.Scanner], [driver.RawReader], [driver.Learner] and [driver.Checker], and has
// nothing to be closed. All methods are safe for concurrent use.
type Driver[T any] struct {
	*table
	codec codec[T]
}

var (
	_ driver.Overwriter[int]  = (*Driver[int])(nil)
	_ driver.ReadToucher[int] = (*Driver[int])(nil)
	_ driver.BatchGetter[int] = (*Driver[int])(nil)
	_ driver.Remover          = (*Driver[int])(nil)
	_ driver.Scanner          = (*Driver[int])(nil)
	_ driver.RawReader        = (*Driver[int])(nil)
	_ driver.Learner          = (*Driver[int])(nil)
	_ driver.Checker          = (*Driver[int])(nil)
)

// New returns a driver for records in a table of db. The table's name may be schema.table;
// db speaks dialect. opts may be nil; it is copied. New does no I/O. An argument that
// breaks its rule is a *driver.InvalidError, and so is a T for a column of JSON that JSON does not keep: a
// map[string]big.Int, because only *big.Int encodes itself and nothing in a map has an address.
func New[T any](db *stdsql.DB, dialect Dialect, table string, opts *Options[T]) (*Driver[T], error) {
	return Over(db, nil, dialect, table, opts)
}

// Over is New, for drivers/sql/pgxsql.
//
// Records are read and written by on, another client's pool for the same database as db.
func Over[T any](db *stdsql.DB, on client.Pool, dialect Dialect, table string, opts *Options[T]) (*Driver[T], error) {
	invalid := func(field, value, rule string) (*Driver[T], error) {
		return nil, &driver.InvalidError{Field: field, Value: value, Rule: rule}
	}
	speaks, ok := dialects[dialect]
	switch {
	case db == nil:
		return invalid("db", "nil", "is required")
	case !ok:
		return invalid("dialect", fmt.Sprint(int(dialect)), "must be PostgreSQL, MySQL or SQLite")
	}
	schema, name, qualified := strings.Cut(table, ".")
	if !qualified {
		schema, name = "", table
	}
	for part, given := range map[string]bool{schema: qualified, name: true} {
		if rule := checkName(part); given && rule != "" {
			return invalid("table", fmt.Sprintf("%q", table), rule)
		}
	}
	o, err := driver.Given(opts).validate()
	if err != nil {
		return nil, err
	}
	if o.Value != "" {
		if _, err := kit.JSONOf[T](); err != nil {
			return nil, err
		}
	}
	t := newTable(db, on, speaks, schema, name, layout{
		key: o.Key, created: o.CreatedAt, expires: o.ExpiresAt, sweep: o.SweepAt, version: o.Version,
		values: o.values(), fields: o.kinds(), blank: o.blank(), json: o.Value != "", maxKey: o.MaxKey, retain: o.Retain, keepReplaced: o.Replaced, keepDeleted: o.Deletes, maxSkew: o.MaxSkew, syncTouches: o.SyncTouches,
	})
	_, standard := t.pool.(standardPool)
	return &Driver[T]{table: t, codec: codec[T]{o.Row.Fields, o.LifeOnly, standard}}, nil
}

// Resolution implements driver.Driver: a millisecond.
func (t *table) Resolution() time.Duration { return time.Millisecond }

type layout struct {
	key              Key
	created, expires TimeColumn
	sweep, version   string
	values           []string
	fields           []fieldKind  // of values
	blank            func() []any // pointers into a new T, for each of values; nil: they are not Options.Row's
	json             bool         // values is one column of JSON
	maxKey           int
	retain           time.Duration
	keepReplaced     bool
	keepDeleted      bool
	maxSkew          time.Duration
	syncTouches      bool
}

// table is the part of a driver that does not depend on T.
type table struct {
	layout
	db           *stdsql.DB
	pool         client.Pool          // for records: db, or another client
	reads        client.Querier       // pool, with prepared statements if that is faster
	turn         *turn                // serializes writers
	slots        func() *client.Slots // of touches, as the pool was at the first
	dialect      dialect
	schema, name string
	sql          statements
	clock        kit.ServerClock
	kinds        atomic.Pointer[[]keyKind]  // of the key's columns; nil: not checked
	unkeyed      atomic.Pointer[string]     // the condition that a row's key is NULL in part; empty: it cannot be; nil: not checked
	keyed        atomic.Pointer[bool]       // whether a change of the value is locked like one of a key; nil: not checked
	none         atomic.Pointer[[2]any]     // what stands for no created_at, and no expiry; nil: NULL, or not checked
	sent         atomic.Pointer[[]keyKind]  // of the value's columns; nil: not checked
	affinities   atomic.Pointer[[]affinity] // of the value's columns in SQLite; nil: not checked
}

func newTable(db *stdsql.DB, on client.Pool, d dialect, schema, name string, l layout) *table {
	if on == nil {
		on = standardPool{standard[*stdsql.DB]{db}}
	}
	t := &table{layout: l, db: db, pool: on, slots: sync.OnceValue(on.Slots), reads: on, dialect: d, schema: schema, name: name}
	if d.types().inProcess {
		t.reads, t.turn = &compiled{db: db}, &turn{db: db}
	}
	t.sql = t.statements()
	return t
}

// tellUnsent are the clients known to return driver.ErrBadConn only for what was never sent, as database/sql asks of them.
// lib/pq returns it also where the answer of a statement was lost. Of a client that wraps another nothing is known.
var tellUnsent = []string{"github.com/jackc/pgx/v5/stdlib", "github.com/go-sql-driver/mysql", "modernc.org/sqlite"}

// unsent reports whether err says that its statement was never sent.
func (t *table) unsent(err error) bool {
	return errors.Is(err, sqldriver.ErrBadConn) && slices.Contains(tellUnsent, packageOf(t.db.Driver()))
}

// packageOf is the path of the package that has a client's type.
func packageOf(client sqldriver.Driver) string {
	is := reflect.TypeOf(client)
	for is != nil && is.Kind() == reflect.Pointer {
		is = is.Elem()
	}
	if is == nil {
		return ""
	}
	return is.PkgPath()
}

// firstRow runs a query, scans its first row, and reports whether there was one. An error of the
// scan may quote the row, so misshapen wraps it.
func firstRow(ctx context.Context, db client.Querier, query string, args, dest []any) (found bool, err error) {
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }()
	if rows.Next() {
		found = true
		if err := rows.Scan(dest...); err != nil {
			return true, misshapen(err)
		}
		for rows.Next() { // SQLite executes a statement only as far as its rows are read
		}
	}
	return found, rows.Err()
}

// first is firstRow for a read, which it repeats while readLost.
func (t *table) first(ctx context.Context, db client.Querier, query string, args, dest []any) (found bool, err error) {
	for range attempts {
		if found, err = firstRow(ctx, db, query, args, dest); !t.readLost(ctx, err) {
			break
		}
	}
	return found, err
}

// readLost reports whether a read is to be repeated because it lost to another transaction, as single
// SELECTs do at PostgreSQL's level serializable. SQLite has waited by then.
func (t *table) readLost(ctx context.Context, err error) bool {
	return err != nil && t.turn == nil && client.TxOf(ctx) == nil && ctx.Err() == nil && t.dialect.verdict(err).again()
}

// row is first for the row of k.
func (t *table) row(ctx context.Context, k rowKey, query string, args, dest []any) error {
	var found bool
	dies := never
	asked, first, err := t.latest(ctx, query, &dies)
	if err == nil {
		found, err = t.first(ctx, t.reader(ctx), asked, args, append(first, dest...))
	}
	if err == nil && dies <= int64(driver.Floor(t.Now())) {
		found, err = t.first(ctx, t.reader(ctx), query+t.sql.locks, args, dest)
	}
	switch {
	case err != nil:
		return t.failed(ctx, err, k)
	case !found:
		return driver.ErrNotFound
	}
	return nil
}
