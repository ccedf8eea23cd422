package sql

import (
	"context"
	stdsql "database/sql"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

type txKey struct{}

// WithTx returns a context that makes a store's calls part of the transaction tx. The store's
// driver is one of this package, and tx is on its database. The calls take effect when tx is
// committed, or not at all. Insert, Upsert, Update and Delete write. A Get, and any other call that
// touches, is a Peek: a read that may be undone promises nothing. The store remembers none of them.
// An error of the database may end tx, as always; a write is tried once. Do not make two calls by
// that context at once, as on tx itself.
//
// A tier above the driver, such as drivers/hot, holds what it reads: give it no such context.
func WithTx(ctx context.Context, tx *stdsql.Tx) context.Context {
	return WithRunner(ctx, standard[*stdsql.Tx]{tx})
}

// WithRunner is WithTx for a transaction of another client than database/sql.
func WithRunner(ctx context.Context, tx Runner) context.Context {
	return context.WithValue(driver.WithUndo(ctx), txKey{}, tx)
}

// txOf returns ctx's transaction; nil: none.
func txOf(ctx context.Context) Runner {
	tx, _ := ctx.Value(txKey{}).(Runner)
	return tx
}

// reader returns ctx's transaction, else the pool.
func (t *table) reader(ctx context.Context) querier {
	if tx := txOf(ctx); tx != nil {
		return tx
	}
	return t.reads
}
