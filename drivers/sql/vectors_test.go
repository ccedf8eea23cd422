package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/internal/spec"
	"github.com/slidingttl/slidingttl/internal/spec/check"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestVectors(t *testing.T) {
	t.Run("forms", func(t *testing.T) {
		check.Forms(t, "sqlite", func(t *testing.T, layout string, _ time.Duration) check.Layout[spec.Row] {
			var opts Options[check.Value]
			if layout == "timestamp" {
				opts.CreatedAt.Type, opts.ExpiresAt.Type = Timestamp, Timestamp
			}
			db := sqltest.DB(t, sqltest.SQLite)
			d := open(t, db, SQLite, &opts)
			columns := []string{"value", "created_at", "expires_at", "sweep_at", "version"}
			return check.Layout[spec.Row]{
				Driver:  d,
				Version: func(v driver.Version) string { return strconv.FormatUint(uint64(v), 10) },
				Put: func(t *testing.T, key string, row *spec.Row) {
					args := []any{key}
					for _, c := range columns {
						args = append(args, (*row)[c])
					}
					mustExec(t, db, SQLite, "INSERT INTO "+d.quoted()+" (id, value, created_at, expires_at, sweep_at, version) VALUES (?, ?, ?, ?, ?, ?)", args...)
				},
				Read: func(t *testing.T, key string) *spec.Row {
					row := make(spec.Row)
					for _, c := range columns {
						var text stdsql.NullString
						if err := db.QueryRowContext(t.Context(), "SELECT CAST("+c+" AS TEXT) FROM "+d.quoted()+" WHERE id = ?", key).Scan(&text); err != nil {
							t.Fatal(err)
						}
						if row[c] = nil; text.Valid {
							row[c] = text.String
						}
					}
					return &row
				},
			}
		})
	})
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d := open[check.Value](t, db, dialect, nil)
		s := check.Store{Driver: d, Plant: func(ctx context.Context, key string, v check.Value, expires driver.Instant) error {
			if err := d.Delete(ctx, key); err != nil {
				return err
			}
			mustExec(t, db, dialect, "INSERT INTO "+d.quoted()+" (id, value, expires_at) VALUES (?, ?, ?)", key, fmt.Sprintf(`{"v":%q}`, v.V), instant(expires))
			return nil
		}}
		t.Run("decisions", s.Decisions)
		t.Run("histories", s.Histories)
	})
}
