package sql

import (
	stdsql "database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// An erasure by key finds the rows of other programs, whose keys the driver refuses or holds for others, and
// takes no key for found that the database cannot have.
func TestWholeRaw(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		mustExec(t, db, dialect, "DROP TABLE IF EXISTS sessions")
		wide, err := New(db, dialect, "sessions", &Options[session]{})
		if err != nil {
			t.Fatal(err)
		}
		if err := wide.EnsureTable(ctx); err != nil {
			t.Fatal(err)
		}
		narrow, err := New(db, dialect, "sessions", &Options[session]{MaxKey: 20})
		if err != nil {
			t.Fatal(err)
		}
		held := []string{"user:42:a", "user:42:" + strings.Repeat("k", 40)}
		now := driver.Floor(time.Now())
		for _, key := range held {
			if _, err := wide.Insert(ctx, key, session{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
				t.Fatal(err)
			}
		}
		if dialect == SQLite {
			for key, as := range map[string]string{"user:42:blob": "BLOB", "user:42:\x00nul": "TEXT", "user:42:\xff": "TEXT"} {
				mustExec(t, db, dialect, "INSERT INTO sessions (id, value) VALUES (CAST(CAST(? AS BLOB) AS "+as+"), '{}')", key)
				held = append(held, key)
			}
		}
		raw, is := narrow.Whole(driver.Erasure{}).(driver.RawReader)
		if !is {
			t.Fatal("Whole has no Raw")
		}
		for _, key := range held {
			if r, err := raw.Raw(ctx, key); err != nil || len(r.Value) == 0 {
				t.Errorf("%q: %+v, %v", key, r, err)
			}
		}
		for _, key := range []string{"user:43:a", "user:43:" + strings.Repeat("k", 40), "user:43:\x00nul", "user:43:\xff"} {
			if _, err := raw.Raw(ctx, key); !errors.Is(err, driver.ErrNotFound) && !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%q: %v", key, err)
			}
		}
	})
}
