package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/internal/hostile"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// sessions is a Redis that retains n sessions which died yesterday of idleness and of age, and a
// tenth as many that are alive.
func sessions(t *testing.T, n int) (uri string) {
	t.Helper()
	addr := redistest.Start(t).Addr
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	d, err := redis.New[map[string]int](c, &redis.Options{Prefix: "app:", Retain: 30 * 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	now := driver.Floor(time.Now())
	yesterday := archive.DayOf(now).Start().Add(-12 * time.Hour)
	insert := func(key string, i int, l driver.Life) {
		insertDead(t, d, key, map[string]int{"n": i}, l)
	}
	for i := range n {
		died := yesterday.Add(-time.Duration(i) * time.Second)
		l := driver.Life{CreatedAt: died.Add(-time.Hour), ExpiresAt: died}
		if i%4 == 0 {
			l.CreatedAt = died.Add(-12 * time.Hour)
		}
		insert(fmt.Sprint("session:", i), i, l)
	}
	for i := range n / 10 {
		insert(fmt.Sprint("alive:", i), i, driver.Life{CreatedAt: now, ExpiresAt: now.Add(20 * time.Minute)})
	}
	return "redis://" + addr + "?prefix=app:"
}

// insertDead inserts a record that is alive, and moves its expiry to where l has it: no store inserts a
// record that is dead by its own time.
func insertDead[T any](t *testing.T, d driver.Driver[T], key string, v T, l driver.Life) {
	t.Helper()
	now := driver.Floor(time.Now())
	alive := driver.Life{CreatedAt: l.CreatedAt, ExpiresAt: max(l.ExpiresAt, now.Add(time.Hour).RoundUp(time.Second))}
	version, err := d.Insert(t.Context(), key, v, alive, now)
	if err == nil && l != alive {
		_, err = d.Touch(t.Context(), key, driver.Meta{Life: alive, Version: version}, l, now)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The commands of docs/archive.md print what it says.
func TestArchiveGuide(t *testing.T) {
	uri := sessions(t, 100)
	config := filepath.Join(t.TempDir(), "slidingttl.json")
	if err := os.WriteFile(config, fmt.Appendf(nil, `{"stores": {"sessions": {"uri": %q}}}`, uri), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(configFrom, config)
	g := guide{path: "../../docs/archive.md", uri: uri, least: 14}
	g.made = func() {
		b, err := archive.OpenDirectory("archive")
		if err != nil {
			t.Fatal(err)
		}
		w, err := archive.NewWriter(b, &archive.WriterOptions{Columns: []archive.Column{archive.NewColumn("user_id", func(r *archive.Record) (string, bool, error) {
			var link struct{ User string }
			err := json.Unmarshal(r.Value, &link)
			return link.User, true, err
		})}})
		if err != nil {
			t.Fatal(err)
		}
		died := driver.Floor(time.Now()).Add(-72 * time.Hour)
		var batch []archive.Record
		for i := range 20 {
			user := 4711 + i%2
			batch = append(batch, archive.Record{
				Key: fmt.Sprintf("link:%d:%d", user, i/2), CreatedAt: died.Add(-24 * time.Hour), ExpiredAt: died, Reason: archive.Idle,
				Format: "json", Value: fmt.Appendf(nil, `{"user":"%d"}`, user),
			})
		}
		if err := w.Write(t.Context(), "links", batch); err != nil {
			t.Fatal(err)
		}
	}
	g.walk(t)
}

// The commands of docs/retaining.md print what it says.
func TestRetainingGuide(t *testing.T) {
	guide{path: "../../docs/retaining.md", uri: sessions(t, 100), made: func() {}, least: 3}.walk(t)
}

// The commands of docs/capacity.md print what it says. They ask no store.
func TestCapacityGuide(t *testing.T) {
	guide{path: "../../docs/capacity.md", least: 1}.walk(t)
}

// The job of docs/operations.md prints what it says on PostgreSQL, and what testdata says elsewhere,
// over sound and hostile records.
func TestOperationsGuide(t *testing.T) {
	for _, name := range []string{"postgres", "redis", "dynamodb"} {
		t.Run(name, func(t *testing.T) {
			s := uncleanStores[name](t)
			now := time.Now()
			records := hostile.Records(now, "", s.limits)
			for i := range 100 {
				records = append(records, hostile.Record{Key: fmt.Sprintf("session:%03d", i), ExpiresAt: now.Add(time.Hour)})
			}
			must(hostile.LoadAll(t.Context(), s.load, records))(t)
			g := s.guide("../../docs/operations.md", 5)
			if name != "postgres" {
				g.transcript = "testdata/operations-" + name + ".txt"
			}
			g.walk(t)
		})
	}
}
