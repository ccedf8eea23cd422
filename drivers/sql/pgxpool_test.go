package sql

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// An application uses its pgxpool for the driver, and the pool replaces broken connections.
func TestPgxPool(t *testing.T) {
	_, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	d := open[session](t, db, PostgreSQL, nil)
	s, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	was, err := s.UpsertEntry(t.Context(), "k", session{"ann"})
	if err != nil {
		t.Fatal(err)
	}
	for _, idle := range pool.AcquireAllIdle(t.Context()) { // their connections break
		if err := idle.Conn().PgConn().Conn().Close(); err != nil {
			t.Error(err)
		}
		idle.Release()
	}
	e, err := s.Entry(t.Context(), "k")
	if err != nil || e.Value.User != "ann" || e.CreatedAt != was.CreatedAt || e.ExpiresAt < was.ExpiresAt {
		t.Errorf("Entry: %+v, %v; want %+v", e, err, was)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
