// Package client is what drivers/sql needs of a client of its database.
package client

import (
	"context"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Pool is how a driver executes its statements on records: database/sql, or a client of the
// database's own. All methods are safe for concurrent use.
type Pool interface {
	Runner

	// Conn takes a connection out of the pool. Its error means that no statement was sent.
	Conn(ctx context.Context) (Conn, error)

	// Slots are [SlotsOf] the pool.
	Slots() *Slots
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

// Tx is a caller's transaction. Its Runner makes one call at a time.
type Tx struct {
	Runner
	lost error
}

// Lose makes all later calls fail with err, because the database can no longer commit tx.
func (tx *Tx) Lose(err error) { tx.lost = err }

func (tx *Tx) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	if tx.lost != nil {
		return nil, tx.lost
	}
	return tx.Runner.Query(ctx, query, args...)
}

func (tx *Tx) Exec(ctx context.Context, statement string, args ...any) (rows int64, err error) {
	if tx.lost != nil {
		return 0, tx.lost
	}
	return tx.Runner.Exec(ctx, statement, args...)
}

// WithTx returns a context whose calls are part of tx.
func WithTx(ctx context.Context, tx Runner) context.Context {
	return context.WithValue(driver.WithUndo(ctx), txKey{}, &Tx{Runner: tx})
}

// TxOf returns ctx's transaction; nil: none.
func TxOf(ctx context.Context) *Tx {
	tx, _ := ctx.Value(txKey{}).(*Tx)
	return tx
}
