package sql

import (
	"context"
	stdsql "database/sql"
	"sync"

	"github.com/slidingttl/slidingttl/drivers/sql/internal/client"
)

// compiled prepares each query once per connection, for queries with few different texts. The
// statements are released with the pool.
type compiled struct {
	db  *stdsql.DB
	all sync.Map // *stdsql.Stmt by its text
}

// Query implements client.Querier.
func (c *compiled) Query(ctx context.Context, query string, args ...any) (client.Rows, error) {
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
