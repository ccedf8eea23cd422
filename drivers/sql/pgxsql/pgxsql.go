// Package pgxsql is drivers/sql for PostgreSQL over an application's own pgxpool.Pool.
//
// No database/sql stands between them. It works in transactions of pgx too, as sqlc and River use them.
//
//	d, err := pgxsql.New[Session](pool, "sessions", nil)
//	...
//	defer d.Close()
//	...
//	tx, err := pool.Begin(ctx)
//	...
//	err = sessions.Insert(pgxsql.WithTx(ctx, tx), "4711", Session{User: "ann"})
//
// The statements are those of drivers/sql, which describes tables, options, sweeps and errors.
// Sweeps, Check and the schema use the same pool through database/sql.
package pgxsql

import (
	"context"
	stdsql "database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/internal/client"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Driver is drivers/sql's driver over a pgxpool.Pool.
type Driver[T any] struct {
	*sql.Driver[T]
	db *stdsql.DB // over the same pool
}

// New returns a driver for records in a table of pool's database. The table's name may be
// schema.table. opts may be nil; it is copied. New does no I/O. An argument that breaks its rule is
// a *driver.InvalidError.
func New[T any](p *pgxpool.Pool, table string, opts *sql.Options[T]) (*Driver[T], error) {
	if p == nil {
		return nil, &driver.InvalidError{Field: "pool", Value: "nil", Rule: "is required"}
	}
	db := stdlib.OpenDBFromPool(p)
	db.SetMaxOpenConns(int(p.Config().MaxConns)) // which Check asks for
	d, err := sql.Over(db, pool{runner[*pgxpool.Pool]{p}, int(p.Config().MaxConns)}, sql.PostgreSQL, table, opts)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return &Driver[T]{d, db}, nil
}

// Close ends the goroutine that database/sql has for the pool. Call it after the last use of the
// driver and its sweepers. The pool stays open.
func (d *Driver[T]) Close() error { return d.db.Close() }

// WithTx is sql.WithTx for a transaction of pgx.
func WithTx(ctx context.Context, tx pgx.Tx) context.Context {
	return client.WithTx(ctx, runner[pgx.Tx]{tx})
}

// pgxClient is a pool, one of its connections, or a transaction.
type pgxClient interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
}

type runner[C pgxClient] struct{ on C }

// Query reads ahead to the first row: pgx tells of most errors only there.
func (r runner[C]) Query(ctx context.Context, query string, args ...any) (client.Rows, error) {
	of, err := r.on.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	got := &rows{Rows: of}
	if got.ahead = of.Next(); !got.ahead && of.Err() != nil {
		return nil, of.Err()
	}
	return got, nil
}

func (r runner[C]) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := r.on.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

type pool struct {
	runner[*pgxpool.Pool]
	most int // connections
}

// Query tries other connections in place of broken ones, on which nothing was sent.
func (p pool) Query(ctx context.Context, query string, args ...any) (got client.Rows, err error) {
	for range p.most + 1 {
		if got, err = p.runner.Query(ctx, query, args...); err == nil || !pgconn.SafeToRetry(err) {
			break
		}
	}
	return got, err
}

// Slots are those that all drivers over the pool share.
func (p pool) Slots() *client.Slots { return client.SlotsOf(p.on, p.most) }

func (p pool) Conn(ctx context.Context) (client.Conn, error) {
	c, err := p.on.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return conn{runner[*pgxpool.Conn]{c}}, nil
}

type conn struct{ runner[*pgxpool.Conn] }

func (c conn) Close() error {
	c.on.Release()
	return nil
}

type rows struct {
	pgx.Rows
	ahead bool // the first row is read
}

func (r *rows) Next() bool {
	if r.ahead {
		r.ahead = false
		return true
	}
	return r.Rows.Next()
}

// Scan scans by pgx's types. Rows.Scan of pgx would end the query at the first value that does not
// fit.
func (r *rows) Scan(dest ...any) error {
	types, values := r.Conn().TypeMap(), r.RawValues()
	fields := r.FieldDescriptions()
	for i, d := range dest {
		if err := types.Scan(fields[i].DataTypeOID, fields[i].Format, values[i], d); err != nil {
			return err
		}
	}
	return nil
}

func (r *rows) Close() error {
	r.Rows.Close()
	return nil
}
