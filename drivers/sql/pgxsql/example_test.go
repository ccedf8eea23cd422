package pgxsql_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slidingttl/slidingttl/drivers/sql/pgxsql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Session is what the application keeps.
type Session struct {
	User string `json:"user"`
}

func Example() {
	ctx := context.Background()
	server, err := sqltest.Run(ctx, sqltest.PostgreSQL) // yours runs already
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	_, dsn, drop, err := server.Schema(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer drop(ctx)

	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	d, err := pgxsql.New[Session](pool, "sessions", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	if err := d.EnsureTable(ctx); err != nil {
		log.Fatal(err)
	}
	sessions, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sessions.Close(ctx)

	tx, err := pool.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := sessions.Insert(pgxsql.WithTx(ctx, tx), "4711", Session{User: "ann"}); err != nil {
		log.Fatal(err)
	}
	_, before := sessions.Get(ctx, "4711")
	if err := tx.Commit(ctx); err != nil {
		log.Fatal(err)
	}
	s, err := sessions.Get(ctx, "4711") // keeps it alive
	fmt.Println("before the commit:", before)
	fmt.Println("after it:", s.User, err)
	// Output:
	// before the commit: slidingttl: get: not found
	// after it: ann <nil>
}
