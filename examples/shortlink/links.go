package main

import (
	"context"
	stdsql "database/sql"
	"errors"
	"log"
	"sync"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// open returns a driver for links, and what ends it.
func open(ctx context.Context, choice backend.Choice) (driver.Driver[string], func() error, error) {
	db, err := backend.OpenSQL(ctx, choice)
	if errors.Is(err, backend.ErrNoSQL) {
		o, err := backend.Open[string](ctx, choice)
		if err != nil {
			return nil, nil, err
		}
		return o.Driver, o.Close, nil
	}
	if err != nil {
		return nil, nil, err
	}
	d, err := openTable(ctx, db.DB, db.Dialect)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	sweeper, err := d.Sweeper(&sql.SweepOptions{
		OnError: func(err error) { log.Print(err) },
	})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	ctx, stop := context.WithCancel(ctx)
	var sweeping sync.WaitGroup
	sweeping.Go(func() { sweeper.Run(ctx) })
	return d, func() error {
		stop()
		sweeping.Wait()
		return db.Close()
	}, nil
}

// openTable returns a driver for the links of a table that has long been there.
func openTable(ctx context.Context, db *stdsql.DB, dialect sql.Dialect) (*sql.Driver[string], error) {
	key := "VARCHAR(20)"
	if dialect == sql.MySQL {
		key = "VARBINARY(20)" // a link's case counts
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS links (id "+key+" NOT NULL PRIMARY KEY, url VARCHAR(2000) NOT NULL)"); err != nil {
		return nil, err
	}
	d, err := sql.New(db, dialect, "links", &sql.Options[string]{
		MaxKey: 20,
		Retain: 30 * day, // in which the page says that the link has expired
		Row: sql.Row[string]{
			Columns: []string{"url"},
			Fields:  func(url *string) []any { return []any{url} },
		},
	})
	if err != nil {
		return nil, err
	}
	return d, d.EnsureTable(ctx) // the columns of a life, and the index
}
