package sql

import (
	"context"
	stdsql "database/sql"

	"github.com/slidingttl/slidingttl/drivers/sql/internal/client"
)

// database is a *sql.DB, a *sql.Conn or a *sql.Tx.
type database interface {
	QueryContext(ctx context.Context, query string, args ...any) (*stdsql.Rows, error)
	ExecContext(ctx context.Context, statement string, args ...any) (stdsql.Result, error)
}

// standard is a client.Runner over database/sql.
type standard[D database] struct{ on D }

func (s standard[D]) Query(ctx context.Context, query string, args ...any) (client.Rows, error) {
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

// standardPool is a client.Pool over database/sql.
type standardPool struct{ standard[*stdsql.DB] }

func (p standardPool) Conn(ctx context.Context) (client.Conn, error) {
	conn, err := p.on.Conn(ctx)
	return standardConn{standard[*stdsql.Conn]{conn}}, err
}

func (p standardPool) Slots() *client.Slots {
	return client.SlotsOf(p.on, p.on.Stats().MaxOpenConnections)
}

type standardConn struct{ standard[*stdsql.Conn] }

func (c standardConn) Close() error { return c.on.Close() }
