package sql

import (
	"context"
	stdsql "database/sql"
	"sync"
)

// compiled prepares each query once per connection, for queries with few different texts. The
// statements are released with the pool.
type compiled struct {
	db  *stdsql.DB
	all sync.Map // *stdsql.Stmt by its text
}

// Query implements querier.
func (c *compiled) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	known, ok := c.all.Load(query)
	if !ok {
		s, err := c.db.PrepareContext(ctx, query)
		if err != nil {
			return nil, err
		}
		if known, ok = c.all.LoadOrStore(query, s); ok {
			_ = s.Close()
		}
	}
	rows, err := known.(*stdsql.Stmt).QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	return rows, nil
}
