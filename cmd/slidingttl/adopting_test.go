package main

import (
	stdsql "database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/internal/hostile"
)

// profiles are the documents of docs/adopting.md, as several programs left them.
func profiles(t *testing.T, c *gocb.Collection) {
	t.Helper()
	ago := func(days int) string {
		return time.Now().Add(-time.Duration(days)*24*time.Hour - time.Hour).UTC().Format(time.RFC3339)
	}
	for i := range 1000 {
		profile := map[string]any{"n": i}
		o := &gocb.UpsertOptions{}
		switch {
		case i < 600: // without created_at, for ever
		case i < 850:
			o.Expiry = 45*24*time.Hour + time.Duration(i)*time.Minute
		case i < 950:
			profile["created_at"] = ago(10 + i%70)
		case i < 980:
			profile["created_at"] = time.Now().Add(-20 * 24 * time.Hour).UnixMilli()
		case i < 995:
			profile["created_at"] = ago(100)
		default:
			profile["created_at"] = "unknown"
		}
		if _, err := c.Upsert(fmt.Sprintf("profile:%04d", i), profile, o); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAdopting: the commands of docs/adopting.md print what it says, one after the other on one
// store; and what testdata says, where other programs have left records that nobody meant.
func TestAdopting(t *testing.T) {
	t.Run("couchbase", func(t *testing.T) {
		n := open(t)
		profiles(t, n.c)
		guide{path: "../../docs/adopting.md", uri: n.uri, least: 10}.walk(t)
	})
	for name, s := range hostileProfiles(t) {
		t.Run(name, func(t *testing.T) {
			s := s(t)
			g := s.guide("../../docs/adopting.md", 10)
			g.transcript = "testdata/adopting-" + name + ".txt"
			g.walk(t)
		})
	}
}

// hostileProfiles are stores with a tenth of the profiles that [profiles] makes, and the hostile
// records beside them.
func hostileProfiles(t *testing.T) map[string]func(*testing.T) unclean {
	t.Helper()
	stores := make(map[string]func(*testing.T) unclean)
	for _, name := range []string{"redis", "postgres", "dynamodb"} {
		stores[name] = func(t *testing.T) unclean {
			s := uncleanStores[name](t)
			now := time.Now()
			ago := func(days int) int64 { return now.Add(-time.Duration(days)*24*time.Hour - time.Hour).UnixMilli() }
			records := hostile.Records(now, "", s.limits)
			for i := 0; i < 1000; i += 10 {
				r := hostile.Record{Name: "profile", Key: fmt.Sprintf("profile:%04d", i)}
				switch {
				case i < 600: // without created_at, for ever
				case i < 850:
					r.ExpiresAt = now.Add(45*24*time.Hour + time.Duration(i)*time.Minute)
				case i < 950:
					r.CreatedAt = ago(10 + i%70)
				case i < 980:
					r.CreatedAt = ago(20) / 1000
				default:
					r.CreatedAt = ago(100)
				}
				records = append(records, r)
			}
			if loaded := must(hostile.LoadAll(t.Context(), s.load, records))(t); len(loaded) < 110 {
				t.Fatalf("the store holds %d records", len(loaded))
			}
			return s
		}
	}
	return stores
}

// A table of another program lacks columns. The first command says how to get them, and by that it
// works.
func TestAdoptingForeignTable(t *testing.T) {
	file := database(t)
	db := must(stdsql.Open("sqlite", sqltest.SQLiteDSN(file)))(t)
	t.Cleanup(func() { _ = db.Close() })
	execute(t, db, "CREATE TABLE sessions (id TEXT PRIMARY KEY, value TEXT)")
	execute(t, db, "INSERT INTO sessions VALUES ('a', '{}'), ('b', '{}')")
	uri := "sqlite:" + file + "?table=sessions"
	_, errs := command(t, exitUsage, "audit", uri, "--policy", thirty)
	contains(t, errs, "the table lacks", "slidingttl schema")
	statements, _ := command(t, 0, "schema", uri)
	execute(t, db, statements)
	out, _ := command(t, 0, "audit", uri, "--policy", thirty)
	contains(t, out, "no created at 2")
	out, _ = command(t, 0, "adopt", uri, "--policy", thirty, "--apply")
	contains(t, out, "adopted 2")

	// The application's triggers are its own.
	d := must(sql.New[map[string]string](db, sql.SQLite, "sessions", &sql.Options[map[string]string]{Deletes: true}))(t)
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, _ = command(t, 0, "schema", uri); strings.Contains(out, "DROP") {
		t.Errorf("of a table with triggers:\n%s", out)
	}
	command(t, 0, "adopt", uri, "--policy", thirty, "--apply")
}
