package sql

import (
	stdsql "database/sql"
	"strings"
	"testing"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// TestErrRefused: a failure that no retry can help is ErrRefused.
func TestErrRefused(t *testing.T) {
	refuses := func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d, err := New[drivertest.Value](db, dialect, "missing", nil)
		if err != nil {
			t.Fatal(err)
		}
		drivertest.RunRefused(t, d)
		cursors, err := d.Segments(t.Context(), 1)
		if err == nil {
			_, err = d.Scan(t.Context(), cursors[0], 1)
		}
		if err == nil || strings.Contains(err.Error(), "quotes the key") {
			t.Errorf("a scan from the beginning: %v; want the database's own text", err)
		}
	}
	t.Run("no table", func(t *testing.T) { onAll(t, refuses) })
	for name, s := range servers {
		t.Run("no such user/"+name, func(t *testing.T) {
			db := anonymous(t, s.server)
			refuses(t, db, s.dialect)
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// anonymous opens a schema as a user that the server does not know.
func anonymous(t *testing.T, server sqltest.Database) *stdsql.DB {
	_, dsn := sqltest.DSN(t, server)
	if server == sqltest.PostgreSQL {
		cfg, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		cfg.User = "missing"
		return stdlib.OpenDB(*cfg)
	}
	cfg, err := gomysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.User = "missing"
	c, err := gomysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return stdsql.OpenDB(c)
}
