package sql_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// An order and its session are stored together, or neither is.
func ExampleWithTx() {
	ctx := context.Background()
	db, err := stdsql.Open("sqlite", "file:orders?mode=memory&cache=shared")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // a database in memory belongs to one connection
	d, err := sql.New[Session](db, sql.SQLite, "sessions", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := d.EnsureTable(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (item TEXT)"); err != nil {
		log.Fatal(err)
	}
	sessions, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 12 * time.Hour}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = sessions.Close(ctx) }()

	order := func(id, item string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // returns an error after a commit
		if err := sessions.Insert(sql.WithTx(ctx, tx), id, Session{User: "ann"}); err != nil {
			return err
		}
		if item == "" {
			return errors.New("nothing was ordered")
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?)", item); err != nil {
			return err
		}
		return tx.Commit()
	}
	for id, item := range map[string]string{"4711": "a book", "4712": ""} {
		if err := order(id, item); err != nil {
			fmt.Println(id, err)
		}
	}
	var orders int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM orders").Scan(&orders); err != nil {
		log.Fatal(err)
	}
	_, with := sessions.Get(ctx, "4711")
	_, without := sessions.Get(ctx, "4712")
	fmt.Println(orders, "order; the session of one is there:", with == nil, "- of the other not:", errors.Is(without, slidingttl.ErrNotFound))
	// Output:
	// 4712 nothing was ordered
	// 1 order; the session of one is there: true - of the other not: true
}
