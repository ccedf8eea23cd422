package sql

import (
	stdsql "database/sql"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestREADME creates the tables as the README says, and Check accepts them.
func TestREADME(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sql\nCREATE TABLE(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 3 {
		t.Fatalf("%d tables, want 3", len(blocks))
	}
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		block := blocks[slices.Index([]Dialect{PostgreSQL, MySQL, SQLite}, dialect)][1]
		for _, statement := range strings.Split("CREATE TABLE"+block, ";") {
			if statement = strings.TrimSpace(statement); statement != "" {
				mustExec(t, db, dialect, statement)
			}
		}
		d, err := New[session](db, dialect, "sessions", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
		d.mustInsert(t, "a", session{"ann"}, lasting(time.Hour))
	})
}

// TestREADMERows brings rows that are there already under the driver as the README says, and begins
// a new life by the statement that it shows.
func TestREADMERows(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(begins string) string {
		_, rest, _ := strings.Cut(string(text), "```sql\n"+begins)
		rest, _, found := strings.Cut(rest, "```")
		if !found {
			t.Fatalf("no block begins with %s", begins)
		}
		return regexp.MustCompile("--.*").ReplaceAllString(begins+rest, "")
	}
	db := sqltest.DB(t, sqltest.PostgreSQL)
	mustExec(t, db, PostgreSQL, `CREATE TABLE links (id text COLLATE "C" PRIMARY KEY, url text, created_at timestamptz)`)
	mustExec(t, db, PostgreSQL, "INSERT INTO links VALUES ('a', 'https://example.com', NULL)")
	for _, statement := range strings.Split(block("ALTER TABLE links"), ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			mustExec(t, db, PostgreSQL, statement)
		}
	}
	d, err := New[struct{}](db, PostgreSQL, "links", &Options[struct{}]{LifeOnly: true, CreatedAt: TimeColumn{Type: Timestamp}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	created := func() driver.Instant {
		e, err := d.Get(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if e.CreatedAt == 0 {
			now := driver.Floor(time.Now())
			if _, err := d.Touch(t.Context(), "a", e.Meta, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
				t.Fatal(err)
			}
		}
		return e.CreatedAt
	}
	if at := created(); at != 0 {
		t.Errorf("before it is adopted, the row was created at %v", at.Time())
	}
	if at := created(); at == 0 {
		t.Error("the row was not adopted")
	}
	upsert, _ := strings.CutPrefix(block("... ON CONFLICT"), "...")
	mustExec(t, db, PostgreSQL, "INSERT INTO links (id, url) VALUES ('a', 'https://example.org') "+upsert)
	if at := created(); at != 0 {
		t.Errorf("after an overwrite that begins a new life, the row was created at %v", at.Time())
	}
}
