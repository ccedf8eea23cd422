package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"strings"

	"github.com/slidingttl/slidingttl/drivers/sql/internal/client"
)

// WithTx returns a context that makes a store's calls part of the transaction tx. The store's
// driver is one of this package, and tx is on its database: a store over another database writes into tx all the
// same, so give it another context. The calls take effect when tx is
// committed, or not at all. Insert, Upsert, Update and Delete write. A Get, and any other call that
// touches, is a Peek: a read that may be undone promises nothing. The store remembers none of them.
// Reads lock what they read where a transaction's snapshot may be old (MySQL, and SQLite, which locks
// the file), so that they see what others have touched since, and a write lands at the first try.
// PostgreSQL's levels above READ COMMITTED see no record that was inserted since their snapshot, and lock
// only one that died since the transaction began: if others have written it, or the transaction is
// read-only, the call is ErrConflict. They tell by the database's clock which died since: with
// slidingttl.Options.Now, or after SET TRANSACTION SNAPSHOT, a record that others have touched may be not
// found. A wrapped repository's saves, made by that context, write their life in tx too. Do not make
// two calls by that context at once, as on tx itself.
//
// An error of the database may end tx, as always. A call that lost to another transaction is
// ErrConflict, and so is each later call by that context: roll back, and begin again. MySQL has rolled
// back by then, and so has SQLite where it interrupts a write whose context ends: tx is ended.
//
// Commit within a minute after a Delete: until then the store remembers no read of the key, nor of
// one other in as many as slidingttl.Options.Remember.
//
// In drivers/hot such calls read past its memory. Other calls may hold what was before the commit
// there, until its Bounds.Staleness or Forget.
func WithTx(ctx context.Context, tx *stdsql.Tx) context.Context {
	return client.WithTx(ctx, standard[*stdsql.Tx]{tx})
}

// reader returns ctx's transaction, else the pool.
func (t *table) reader(ctx context.Context) client.Querier {
	if tx := client.TxOf(ctx); tx != nil {
		return tx
	}
	return t.reads
}

// latest makes a SELECT in a caller's transaction see the row as it is, and lock it, where a snapshot
// would show the row before others' touches. A snapshot of SQLite's is the latest, and stays it, once
// the transaction has the lock. On PostgreSQL the SELECT also tells, in first, when its record dies, or
// never where that is not to be known. If it is dead, the SELECT is to be made again with t.sql.locks.
func (t *table) latest(ctx context.Context, query string, dies *int64) (_ string, first []any, err error) {
	tx := client.TxOf(ctx)
	switch {
	case tx == nil:
		return query, nil, nil
	case t.sql.dies != "":
		return t.sql.dies + strings.TrimPrefix(query, "SELECT"), []any{dies}, nil
	}
	return query + t.sql.locks, nil, t.lock(ctx, tx)
}

// lock makes tx take the write lock, if the database has one for all.
func (t *table) lock(ctx context.Context, tx client.Runner) (err error) {
	if lock := t.dialect.types().lock; lock != "" {
		_, err = tx.Exec(ctx, fmt.Sprintf(lock, t.quoted(), t.dialect.quote(t.sweep)))
	}
	return err
}
