package main

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// house is stores and an archive that hold records of the users 42 and 43, half of them dead. A value
// names its user too. The SQLite file has been written to without secure_delete.
type house struct {
	config, archive, report, sqlite, rdb string

	cache rueidis.Client
	table *stdsql.DB // of the SQLite file
}

func build(t *testing.T, each int) *house {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	h := &house{config: filepath.Join(dir, "slidingttl.json"), archive: filepath.Join(dir, "archive"), report: filepath.Join(dir, "42.json"), sqlite: database(t)}
	now := driver.Floor(time.Now())
	fill := func(d driver.Driver[map[string]string]) {
		for i := range each {
			for _, user := range []int{41, 42, 43} {
				l := driver.Life{CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour)}
				if i%2 == 0 {
					l.ExpiresAt = now.Add(-time.Minute)
				}
				key := fmt.Sprintf("user:%d:%04d", user, i*7919%each)
				value := map[string]string{"user": fmt.Sprintf("secret-of-%d", user), "text": strings.Repeat("x", i%300*20)}
				insertDead(t, d, key, value, l)
			}
		}
	}

	server := redistest.Start(t)
	h.cache = server.Client(t)
	h.redis(t, "CONFIG", "SET", "save", "3600 1000")
	fill(must(redis.New[map[string]string](h.cache, &redis.Options{Prefix: "app:", Retain: 24 * time.Hour}))(t))
	h.redis(t, "RPUSH", "app:user:42:list", "of another type")
	h.redis(t, "SAVE")
	h.rdb = filepath.Join(must(must(h.cache.Do(ctx, h.cache.B().ConfigGet().Parameter("dir").Build()).AsStrMap())(t)["dir"], nil)(t), "dump.rdb")

	h.table = must(stdsql.Open("sqlite", sqltest.SQLiteDSN(h.sqlite)))(t)
	t.Cleanup(func() { _ = h.table.Close() })
	d := must(sql.New[map[string]string](h.table, sql.SQLite, "sessions", &sql.Options[map[string]string]{Deletes: true}))(t)
	if err := d.EnsureTable(ctx); err != nil {
		t.Fatal(err)
	}
	fill(d)
	execute(t, h.table, "DELETE FROM sessions WHERE id LIKE 'user:42:%5'") // they wait for the archive, and in free space

	name, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	db := must(stdsql.Open(name, dsn))(t)
	t.Cleanup(func() { _ = db.Close() })
	execute(t, db, "DROP TABLE IF EXISTS sessions")
	p := must(sql.New[map[string]string](db, sql.PostgreSQL, "sessions", nil))(t)
	if err := p.EnsureTable(ctx); err != nil {
		t.Fatal(err)
	}
	fill(p)

	b := must(archive.OpenDirectory(h.archive))(t)
	w := must(archive.NewWriter(b, nil))(t)
	for day := range 3 {
		died := now.Add(-time.Duration(day+2) * 24 * time.Hour)
		batch := archive.Batch{Source: "sessions"}
		for i := range 30 {
			for _, user := range []int{41, 42, 43} {
				batch.Records = append(batch.Records, archive.Record{Key: fmt.Sprintf("user:%d:%04d", user, i), ExpiredAt: died, Value: fmt.Appendf(nil, "secret-of-%d", user)})
			}
		}
		if err := w.Write(ctx, batch); err != nil {
			t.Fatal(err)
		}
	}
	settings := map[string]any{"stores": map[string]settings{
		"cache": {URI: "redis://" + server.Option().InitAddress[0] + "?prefix=app:&retain=24h"},
		"file":  {URI: "sqlite:" + h.sqlite + "?table=sessions"},
		"main":  {URI: postgresURI(dsn)},
	}}
	if err := os.WriteFile(h.config, must(json.Marshal(settings))(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) redis(t *testing.T, words ...string) {
	t.Helper()
	if err := h.cache.Do(t.Context(), h.cache.B().Arbitrary(words...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// holders returns the files of h, none of them the report, that have text in them.
func (h *house) holders(t *testing.T, texts ...string) (names []string) {
	t.Helper()
	for _, root := range []string{filepath.Dir(h.sqlite), h.rdb, h.archive} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			for _, text := range texts {
				if bytes.Contains(content, []byte(text)) {
					names = append(names, path+" has "+text)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

func (h *house) args(more ...string) []string {
	return append([]string{"erase", "--config", h.config, "--rate", "0", "--writes", "0"}, more...)
}

func (h *house) read(t *testing.T) (e erasure) {
	t.Helper()
	if err := json.Unmarshal(must(os.ReadFile(h.report))(t), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// What erase leaves of a person is not in the stores' own files, nor in the archive's; others stay.
func TestErase(t *testing.T) {
	h := build(t, 300)
	if held := h.holders(t, "user:42:", "secret-of-42"); len(held) < 5 {
		t.Fatalf("before: %q", held)
	}
	ask := h.args("--prefix", "user:42:", "--archive", h.archive)
	out, _ := command(t, 0, ask...)
	contains(t, out, "cache: 300 records would be erased, a dry run", "file: 270 records would be erased, a dry run", "and 30 that waited", "main: 300 records", "90 records in 3 files would be forgotten, a dry run")
	if held := h.holders(t, "user:42:"); len(held) < 3 {
		t.Errorf("a dry run: %q", held)
	}
	command(t, exitUsage, append(ask, "--apply")...)
	command(t, exitUsage, append(ask, "--report", h.report)...)
	out, _ = command(t, 0, append(ask, "--apply", "--report", h.report)...)
	contains(t, out, "cache: 300 records erased", "file: 270 records erased", "and 30 that waited", "main: 300 records erased", "90 records forgotten", "may still be in: dead tuples until VACUUM, the WAL", "an AOF until BGREWRITEAOF")
	if held := h.holders(t, "user:42:0", "secret-of-42"); len(held) > 0 {
		t.Errorf("after: %q", held)
	}
	if held := h.holders(t, "user:43:", "secret-of-43"); len(held) < 5 {
		t.Errorf("others are held by %q", held)
	}
	e := h.read(t)
	if !e.Applied || e.Ended.IsZero() || e.Digest != e.digest() || len(e.Asked) != 1 || e.Asked[0].Records != 870 || len(e.Archives[0].Report.Asked[0].Days) != 3 {
		t.Errorf("%+v", e)
	}
	if info := must(os.Stat(h.report))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the report's mode is %v", info.Mode())
	}
	if left := must(filepath.Glob(h.report + ".*"))(t); left != nil {
		t.Errorf("%q", left)
	}

	// The report is proved, by each command, until a record is there again or the report is changed.
	command(t, 0, h.args("--check", h.report)...)
	command(t, 0, "archive", "forget", h.archive, "--check", h.report)
	_, errs := command(t, exitUsage, append(ask, "--apply", "--report", h.report)...)
	contains(t, errs, "is done")
	execute(t, h.table, "INSERT INTO sessions (id, value) VALUES ('user:42:again', '{}')")
	_, errs = command(t, exitFailed, h.args("--check", h.report)...)
	contains(t, errs, "1 records are there of what was erased")
	command(t, 0, "archive", "forget", h.archive, "--check", h.report)
	w := must(archive.NewWriter(must(archive.OpenDirectory(h.archive))(t), nil))(t)
	late := archive.Batch{Source: "sessions", Records: []archive.Record{{Key: "user:42:late", ExpiredAt: driver.Floor(time.Now().Add(-time.Hour))}}}
	if err := w.Write(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	command(t, exitFailed, "archive", "forget", h.archive, "--check", h.report)
	text := bytes.Replace(must(os.ReadFile(h.report))(t), []byte(`"user:42:"`), []byte(`"user:4x:"`), 1)
	if err := os.WriteFile(h.report, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs = command(t, exitUsage, h.args("--check", h.report)...)
	contains(t, errs, "it was changed")
}

// Keys are erased by a list, and the report names those that nobody had.
func TestEraseKeys(t *testing.T) {
	h := build(t, 20)
	list := filepath.Join(t.TempDir(), "keys.txt")
	if err := os.WriteFile(list, []byte("\ufeffuser:42:0001\r\nnobody\r\nuser:42:list\r\n\"user:42:\\xff\"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := command(t, 0, h.args("--keys", list, "--archive", h.archive, "--apply", "--report", h.report)...)
	contains(t, out, "cache: 1 records erased", "file: 1 records erased", "main: 1 records erased", "3 records forgotten")
	e := h.read(t)
	for _, a := range append(e.Asked, e.Archives[0].Report.Asked...) {
		if (a.Records == 3) != (a.Key == "user:42:0001") {
			t.Errorf("%+v", a)
		}
	}
	if len(e.Asked) != 4 {
		t.Errorf("%+v", e.Asked)
	}
	if held := h.holders(t, "user:42:0001"); len(held) > 0 {
		t.Errorf("after: %q", held)
	}
	if held := h.holders(t, "user:42:0002"); len(held) < 2 {
		t.Errorf("others are held by %q", held)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"must have the form column=value", []string{"archive", "forget", h.archive, "--where", "user_id"}},
		{"must have the form column=value", []string{"archive", "forget", h.archive, "--where", "=4711"}},
		{"must have one of", h.args("--archive", h.archive)},
		{"must have one of", h.args("--archive", h.archive, "--prefix", "a", "b")},
		{"names no stores", []string{"erase", "a", "--config", filepath.Join(t.TempDir(), "empty.json")}},
	} {
		if i := slices.Index(c.args, "--config"); i > 0 && c.want == "names no stores" {
			if err := os.WriteFile(c.args[i+1], []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, errs := command(t, exitUsage, c.args...)
		contains(t, errs, c.want)
	}
}

// An erasure that is killed time and again is gone on with by the same command, and its report has
// what one run would have found.
func TestEraseKilled(t *testing.T) {
	h := build(t, 200)
	program := must(os.Executable())(t)
	args := append(h.args("--prefix", "user:42:", "--archive", h.archive, "--apply", "--report", h.report), "--page", "20", "--segments", "1")
	count := func() (n int) {
		left := must(h.cache.Do(t.Context(), h.cache.B().Dbsize().Build()).AsInt64())(t)
		must(0, h.table.QueryRowContext(t.Context(), "SELECT count(*) FROM sessions").Scan(&n))(t)
		return n + int(left)
	}
	kills := 0
	for ; ; kills++ {
		c := exec.Command(program, args...)
		c.Env = append(os.Environ(), asCommand+"=1")
		var errs bytes.Buffer
		c.Stderr = &errs
		was := count()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended, stop := context.WithCancel(t.Context())
		var failed error
		go func() { failed = c.Wait(); stop() }()
		due := func() bool {
			if kills < 6 {
				return was-count() >= 1+15*kills
			}
			_, err := os.Stat(h.report + ".days") // it is in the archive
			return err == nil
		}
		for kills < 8 && ended.Err() == nil && !due() {
		}
		if kills < 8 && ended.Err() == nil {
			_ = c.Process.Kill()
			<-ended.Done()
			continue
		}
		<-ended.Done()
		if failed != nil {
			t.Fatalf("%v: %s", failed, &errs)
		}
		break
	}
	if kills < 3 {
		t.Errorf("it was killed %d times", kills)
	}
	e := h.read(t)
	if e.Asked[0].Records != 580 || e.Archives[0].Report.Asked[0].Records != 90 || e.Digest != e.digest() {
		t.Errorf("after %d kills: %+v, %+v", kills, e.Asked, e.Archives[0].Report)
	}
	if held := h.holders(t, "user:42:0", "secret-of-42"); len(held) > 0 {
		t.Errorf("after: %q", held)
	}
}
