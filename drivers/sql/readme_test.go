package sql

import (
	stdsql "database/sql"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
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
