// Package client is what drivers/sql needs of a client of its database.
package client

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Pool is how a driver executes its statements on records: database/sql, or a client of the
// database's own. All methods are safe for concurrent use.
type Pool interface {
	Runner

	// Conn takes a connection out of the pool. Its error means that no statement was sent.
	Conn(ctx context.Context) (Conn, error)

	// Slots are [SlotsOf] the pool.
	Slots() *semaphore.Weighted
}

// Conn is a connection taken out of a Pool. Close gives it back.
type Conn interface {
	Runner
	Close() error
}

// Runner executes statements. Errors are the client's own: the dialect reads them.
type Runner interface {
	Querier
	Exec(ctx context.Context, statement string, args ...any) (rows int64, err error)
}

// Querier executes statements that return rows.
type Querier interface {
	Query(ctx context.Context, query string, args ...any) (Rows, error)
}

// Rows are the rows of a query, as *sql.Rows has them. A failed Scan leaves the following rows
// readable. What was scanned stays valid after the next call.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

type txKey struct{}

// WithTx returns a context whose calls are part of tx.
func WithTx(ctx context.Context, tx Runner) context.Context {
	return context.WithValue(driver.WithUndo(ctx), txKey{}, tx)
}

// TxOf returns ctx's transaction; nil: none.
func TxOf(ctx context.Context) Runner {
	tx, _ := ctx.Value(txKey{}).(Runner)
	return tx
}
