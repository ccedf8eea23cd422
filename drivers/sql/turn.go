package sql

import (
	"context"
	stdsql "database/sql"
	"sync"
	"sync/atomic"
)

// turn makes writers to a SQLite file go one at a time, those of all drivers in this process. SQLite
// has one lock for all writers, and a waiting writer polls it every millisecond or more; turn wakes
// it instead. A nil turn never blocks.
type turn struct {
	db   *stdsql.DB
	file atomic.Pointer[chan struct{}] // nil until the database has named its file
}

// turns are those of the files in use, by path.
var turns sync.Map

func (t *turn) take(ctx context.Context) error {
	if t == nil {
		return nil
	}
	c := t.file.Load()
	if c == nil {
		var path string
		if err := t.db.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path); err != nil {
			return err
		}
		made := make(chan struct{}, 1)
		var known any = &made
		if path != "" { // a database in memory is this pool's
			known, _ = turns.LoadOrStore(path, &made)
		}
		t.file.CompareAndSwap(nil, known.(*chan struct{}))
		c = t.file.Load()
	}
	select {
	case *c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turn) pass() {
	if t != nil {
		<-*t.file.Load()
	}
}
