package backend

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
)

// SQL is a SQL database in use.
type SQL struct {
	DB      *stdsql.DB
	Dialect sql.Dialect
	About   string // what it is, in a few words
	close   []func() error
}

// Close ends what OpenSQL began.
func (s *SQL) Close() error {
	var errs []error
	for i := len(s.close) - 1; i >= 0; i-- {
		errs = append(errs, s.close[i]())
	}
	return errors.Join(errs...)
}

// ErrNoSQL says that a driver is of no SQL database.
var ErrNoSQL = errors.New("must be postgres, mariadb or sqlite")

// OpenSQL opens the database that c names: postgres, mariadb or sqlite.
func OpenSQL(ctx context.Context, c Choice) (*SQL, error) {
	known := map[string]struct {
		dialect        sql.Dialect
		server         sqltest.Database
		driver, called string
	}{
		"postgres": {sql.PostgreSQL, sqltest.PostgreSQL, "pgx", "PostgreSQL"},
		"mariadb":  {sql.MySQL, sqltest.MariaDB, "mysql", "MariaDB"},
		"sqlite":   {sql.SQLite, sqltest.SQLite, "sqlite", "SQLite"},
	}
	k, ok := known[c.Driver]
	if !ok {
		return nil, fmt.Errorf("-driver %s: %w", c.Driver, ErrNoSQL)
	}
	s := &SQL{Dialect: k.dialect, About: "a " + k.called}
	dsn := c.Address
	switch {
	case dsn != "":
	case k.dialect == sql.SQLite:
		dir, err := os.MkdirTemp("", "slidingttl-")
		if err != nil {
			return nil, err
		}
		s.close = append(s.close, func() error { return os.RemoveAll(dir) })
		s.About = "a file of SQLite"
		dsn = sqltest.SQLiteDSN(filepath.Join(dir, "example.db"))
	default:
		server, err := sqltest.Run(ctx, k.server)
		if err != nil {
			return nil, err
		}
		s.close = append(s.close, server.Close)
		s.About = "a " + k.called + " started for the occasion"
		if _, dsn, _, err = server.Schema(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	db, err := stdsql.Open(k.driver, dsn)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.DB = db
	s.close = append(s.close, db.Close)
	return s, nil
}
