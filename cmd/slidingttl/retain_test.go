package main

import (
	stdsql "database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/cosmos"
	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// What a store retains is told apart from what it should have removed, harvested, and reaped
// only when that is asked for.
func TestRetained(t *testing.T) {
	const day = 24 * time.Hour
	stores := map[string]func(*testing.T) (uri string, d driver.Driver[any]){
		"sqlite": func(t *testing.T) (string, driver.Driver[any]) {
			file := filepath.Join(t.TempDir(), "app.db")
			db := must(stdsql.Open("sqlite", sqltest.SQLiteDSN(file)))(t)
			t.Cleanup(func() { _ = db.Close() })
			d := must(sql.New(db, sql.SQLite, "sessions", &sql.Options[any]{Retain: 30 * day}))(t)
			if err := d.EnsureTable(t.Context()); err != nil {
				t.Fatal(err)
			}
			return "sqlite:" + file + "?table=sessions&retain=30d", d
		},
		"couchbase": func(t *testing.T) (string, driver.Driver[any]) {
			n := open(t)
			return n.uri + "?retain=30d", must(couchbase.New[any](n.c, &couchbase.Options{Retain: 30 * day}))(t)
		},
		"cosmos": func(t *testing.T) (string, driver.Driver[any]) {
			container, uri := cosmosContainer(t)
			return uri + "&retain=30d", must(cosmos.New[any](container, &cosmos.Options{Retain: 30 * day}))(t)
		},
		"dynamodb": func(t *testing.T) (string, driver.Driver[any]) {
			client, table, uri := dynamodbTable(t)
			return uri + "&retain=30d", must(dynamodb.New[any](client, table, &dynamodb.Options{Retain: 30 * day}))(t)
		},
		"redis": func(t *testing.T) (string, driver.Driver[any]) {
			server := redistest.Start(t)
			d := must(redis.New[any](server.Client(t), &redis.Options{Retain: 30 * day}))(t)
			return "redis://" + server.Option().InitAddress[0] + "?retain=30d&prefix=*", d
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			uri, d := open(t)
			now := driver.Floor(time.Now())
			for key, died := range map[string]time.Duration{"live": -day, "retained": 2 * day} {
				life := driver.Life{CreatedAt: now.Add(-5 * day), ExpiresAt: now.Add(-died).RoundUp(time.Second)}
				insertDead(t, d, key, any(map[string]any{"n": 1}), life)
			}
			out, _ := command(t, 0, "audit", uri, "--policy", thirty)
			contains(t, out, "2 records looked at", "slides 1", "retained 1", "dead 0")
			out, _ = command(t, 4, "inspect", uri, "retained", "--policy", thirty)
			contains(t, out, "not alive: it expired")
			buried := t.TempDir()
			harvest := []string{"harvest", uri, buried, "--source", "sessions", "--policy", thirty}
			out, _ = command(t, 0, harvest...)
			contains(t, out, "dry run", "would be harvested: dead of idleness 1", "alive, or dead not long enough 1")
			command(t, exitDead, "archive", "find", buried, "retained")
			out, _ = command(t, 0, append(harvest, "--apply")...)
			contains(t, out, "harvested: dead of idleness 1")
			out, _ = command(t, 0, "archive", "find", buried, "retained")
			contains(t, out, "died (idle), from sessions", `"n"`)
			out, _ = command(t, 0, "reap", uri, "--policy", thirty, "--what", "expired", "--apply")
			contains(t, out, "dead, and retained by the store 1")
			out, _ = command(t, 0, "reap", uri, "--policy", thirty, "--what", "retained", "--apply")
			contains(t, out, "removed: expired 1")
			out, _ = command(t, 0, "audit", uri, "--policy", thirty)
			contains(t, out, "1 records looked at", "slides 1", "retained 0")
		})
	}
}
