package sql

import (
	stdsql "database/sql"
	"slices"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestLive(t *testing.T) {
	for name, kind := range map[string]TimeType{"millis": Millis, "timestamp": Timestamp, "datetime": DateTime} {
		t.Run(name, func(t *testing.T) {
			onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
				d := open(t, db, dialect, &Options[session]{ExpiresAt: TimeColumn{Type: kind}})
				for key, expiry := range map[string]driver.Instant{
					"later": base + 1, "now": base, "before": base.Add(-time.Hour), "never": 0,
				} {
					d.mustInsert(t, key, session{"ann"}, driver.Life{CreatedAt: base.Add(-2 * time.Hour), ExpiresAt: expiry})
				}
				rows, err := db.QueryContext(t.Context(), "SELECT id FROM "+d.quoted()+" WHERE "+d.Live(base)+" ORDER BY id")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = rows.Close() }()
				var found []string
				for rows.Next() {
					var id string
					if err := rows.Scan(&id); err != nil {
						t.Fatal(err)
					}
					found = append(found, id)
				}
				if want := []string{"later", "never"}; rows.Err() != nil || !slices.Equal(found, want) {
					t.Errorf("the query finds %q, %v; want %q", found, rows.Err(), want)
				}
			})
		})
	}
}
