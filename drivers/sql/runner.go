package sql

import (
	"context"
	stdsql "database/sql"
)

// Pool is how a Driver reaches its database for the statements on records.
//
// That is database/sql, or a client of the database's own, such as a pgxpool.Pool in
// drivers/sql/pgxsql. All methods are safe
// for concurrent use. A method MaxConns() int, if there is one, returns its limit, of which touches
// use half.
type Pool interface {
	Runner

	// Conn takes a connection out of the pool. Its error means that no statement was sent.
	Conn(ctx context.Context) (Conn, error)
}

// Conn is a connection taken out of a Pool. Close gives it back.
type Conn interface {
	Runner
	Close() error
}

// Runner executes statements. Errors are the client's own: the dialect reads them.
type Runner interface {
	querier
	Exec(ctx context.Context, statement string, args ...any) (rows int64, err error)
}

// Rows are the rows of a query, as *sql.Rows has them. A failed Scan leaves the following rows
// readable. What was scanned stays valid after the next call.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

type querier interface {
	Query(ctx context.Context, query string, args ...any) (Rows, error)
}

// database is a *sql.DB, a *sql.Conn or a *sql.Tx.
type database interface {
	QueryContext(ctx context.Context, query string, args ...any) (*stdsql.Rows, error)
	ExecContext(ctx context.Context, statement string, args ...any) (stdsql.Result, error)
}

// standard is a Runner over database/sql.
type standard[D database] struct{ on D }

func (s standard[D]) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	rows, err := s.on.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func (s standard[D]) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := s.on.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// standardPool is a Pool over database/sql.
type standardPool struct{ standard[*stdsql.DB] }

func (p standardPool) Conn(ctx context.Context) (Conn, error) {
	conn, err := p.on.Conn(ctx)
	return standardConn{standard[*stdsql.Conn]{conn}}, err
}

type standardConn struct{ standard[*stdsql.Conn] }

func (c standardConn) Close() error { return c.on.Close() }
