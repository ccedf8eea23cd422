package main

import (
	"context"
	stdsql "database/sql"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// rows is a repository with SQL of its own, for PostgreSQL and SQLite. It has no expiry,
// and does not change.
type rows struct{ db *stdsql.DB }

const createTable = `CREATE TABLE profiles (id VARCHAR(255) PRIMARY KEY, name TEXT NOT NULL, created_at BIGINT NOT NULL)`

// Get returns the profile of id.
func (r rows) Get(ctx context.Context, id string) (profile, error) {
	var v profile
	var created int64
	err := r.db.QueryRowContext(ctx, "SELECT name, created_at FROM profiles WHERE id = $1", profileKey(id)).Scan(&v.Name, &created)
	if errors.Is(err, stdsql.ErrNoRows) {
		return v, errNoProfile
	}
	v.CreatedAt = time.UnixMilli(created)
	return v, err
}

// Upsert writes the profile of id.
func (r rows) Upsert(ctx context.Context, id string, v profile) error {
	_, err := r.db.ExecContext(ctx, `INSERT INTO profiles (id, name, created_at) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, created_at = excluded.created_at`,
		profileKey(id), v.Name, v.CreatedAt.UnixMilli())
	return err
}

// sql opens a file of SQLite, or starts a PostgreSQL.
func (t *team) sql(ctx context.Context, name string) error {
	db, err := backend.OpenSQL(ctx, backend.Choice{Driver: name})
	if err != nil {
		return err
	}
	t.close = append(t.close, db.Close)
	if _, err := db.DB.ExecContext(ctx, createTable); err != nil {
		return err
	}
	t.repo, t.clock = rows{db.DB}, &ownClock{time.Now()}
	t.driver = func(ctx context.Context) (driver.Driver[profile], error) {
		d, err := sql.New[profile](db.DB, db.Dialect, "profiles", &sql.Options[profile]{LifeOnly: true})
		if err != nil {
			return nil, err
		}
		return d, d.EnsureTable(ctx) // adds the columns of a life
	}
	return nil
}
