package sources

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Each row of archive/README.md's table of losses names tests that exist.
func TestLossesAreTests(t *testing.T) {
	const root = "../../../"
	readme, err := os.ReadFile(root + "archive/README.md")
	ok(t, err)
	_, table, found := strings.Cut(string(readme), "| what can be lost | shown by |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var tests strings.Builder
	for _, dir := range []string{".", root + "archive", root + "drivers/dynamodb", root + "drivers/sql"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		ok(t, err)
		for _, file := range files {
			content, err := os.ReadFile(file)
			ok(t, err)
			tests.Write(content)
		}
	}
	rows := strings.Split(strings.TrimSpace(table), "\n")
	if !found || len(rows) != 3 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		named := regexp.MustCompile("`(Test[A-Za-z]+)(?:/([a-z]+))?`").FindAllStringSubmatch(row, -1)
		if len(named) == 0 {
			t.Errorf("no test shows it: %s", row)
		}
		for _, n := range named {
			if !strings.Contains(tests.String(), "func "+n[1]+"(t *testing.T)") || n[2] != "" && !strings.Contains(tests.String(), `t.Run("`+n[2]+`"`) {
				t.Errorf("there is no %s", n[0])
			}
		}
	}
}

// The losses that archive/README.md lists happen, and no others.
func TestLost(t *testing.T) {
	now := driver.Floor(time.Now()).RoundUp(time.Second)
	dead := func(ago time.Duration) driver.Life {
		return driver.Life{CreatedAt: now.Add(-ago - time.Hour), ExpiresAt: now.Add(-ago)}
	}
	alive := driver.Life{CreatedAt: now.Add(-time.Minute), ExpiresAt: now.Add(time.Hour)}
	// live ends lives of d's records in all ways.
	live := func(t *testing.T, d driver.Driver[session]) {
		t.Helper()
		insert := func(key string, l driver.Life) { t.Helper(); insert(t, d, key, session{User: key}, l) }
		insert("died", dead(time.Hour))
		insert("replaced", dead(5*time.Hour))
		insert("replaced", dead(time.Hour))
		insert("deleted", alive)
		ok(t, d.Delete(t.Context(), "deleted"))
		insert("died and deleted", dead(time.Hour))
		ok(t, d.Delete(t.Context(), "died and deleted"))
	}
	// wants the archive to have so many lives of each key, with the deleted ones marked as deleted.
	wants := func(t *testing.T, path string, want map[string]int) {
		t.Helper()
		found := archived(t, path)
		for key, lives := range found {
			for _, a := range lives {
				if (a.Reason == archive.Deleted) != (key == "deleted") {
					t.Errorf("%s ended as %s", key, a.Reason)
				}
			}
			if len(lives) != want[key] {
				t.Errorf("%d lives of %q; want %d", len(lives), key, want[key])
			}
		}
		if len(found) != len(want) {
			t.Errorf("%d keys; want %d", len(found), len(want))
		}
	}
	t.Run("sql", func(t *testing.T) {
		for _, c := range []struct {
			opts sql.Options[session]
			want map[string]int
		}{
			{sql.Options[session]{}, map[string]int{"died": 1, "replaced": 1}},
			{sql.Options[session]{Replaced: true}, map[string]int{"died": 1, "replaced": 2}},
			{sql.Options[session]{Replaced: true, Deletes: true}, map[string]int{"died": 1, "replaced": 2, "deleted": 1, "died and deleted": 1}},
		} {
			t.Run(fmt.Sprint(c.opts.Replaced, c.opts.Deletes), func(t *testing.T) {
				d, err := sql.New(sqltest.DB(t, sqltest.SQLite), sql.SQLite, table, &c.opts)
				ok(t, err)
				ok(t, d.EnsureTable(t.Context()))
				live(t, d)
				path := t.TempDir()
				_, g, err := open(path)
				ok(t, err)
				ok(t, sweepSQL(t.Context(), d, g, 10))
				wants(t, path, c.want)
			})
		}
	})
	t.Run("harvest", func(t *testing.T) {
		r := stores["redis"](t)
		r.Kind = "redis"
		d, done, err := openHarvested(r)
		ok(t, err)
		defer func() { ok(t, done()) }()
		live(t, d)
		late := dead(31 * day) // a day after its retention
		insert(t, d, "too late", session{}, late)
		path := t.TempDir()
		_, g, err := open(path)
		ok(t, err)
		ok(t, harvest(t.Context(), d, g, 10))
		wants(t, path, map[string]int{"died": 1, "replaced": 1})
	})
}
