package main

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/dynamodb"
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
	h.redis(t, "CONFIG", "SET", "save", "") // it is saved by hand, as a backup is
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
		batch := []archive.Record{{ExpiredAt: died, Value: []byte("of nobody known")}} // to the quarantine
		for i := range 30 {
			for _, user := range []int{41, 42, 43} {
				batch = append(batch, archive.Record{Key: fmt.Sprintf("user:%d:%04d", user, i), ExpiredAt: died, Value: fmt.Appendf(nil, "secret-of-%d", user)})
			}
		}
		if err := w.Write(ctx, "sessions", batch); err != nil {
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
	contains(t, out, "cache: 300 records would be erased, a dry run", "file: 270 records would be erased, a dry run", "and 30 lives beside records", "main: 300 records", "90 records in 3 files would be forgotten, a dry run")
	if held := h.holders(t, "user:42:"); len(held) < 3 {
		t.Errorf("a dry run: %q", held)
	}
	command(t, exitUsage, append(ask, "--apply")...)
	command(t, exitUsage, append(ask, "--report", h.report)...)
	out, _ = command(t, 0, append(ask, "--apply", "--report", h.report)...)
	contains(t, out, "cache: 300 records erased", "1 of these keys hold no record", "file: 270 records erased", "and 30 lives beside records", "main: 300 records erased", "90 records forgotten", "3 records of the quarantine have no key, were not searched, and stay", "may still be in: dead tuples until VACUUM, the WAL", "an AOF until BGREWRITEAOF")
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
	late := []archive.Record{{Key: "user:42:late", ExpiredAt: driver.Floor(time.Now().Add(-time.Hour))}}
	if err := w.Write(t.Context(), "sessions", late); err != nil {
		t.Fatal(err)
	}
	command(t, exitFailed, "archive", "forget", h.archive, "--check", h.report)
}

// A report is proved only as it was written: who reads the file sees what was checked. It may have been
// written or printed.
func TestEraseReportChanged(t *testing.T) {
	dir := t.TempDir()
	w := must(archive.NewWriter(must(archive.OpenDirectory(dir))(t), nil))(t)
	if err := w.Write(t.Context(), "a", []archive.Record{{Key: "user:41", ExpiredAt: driver.Floor(time.Now().Add(-time.Hour))}}); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "42.json")
	forget := []string{"archive", "forget", dir}
	out, _ := command(t, 0, append(forget, "user\u200b:<42>", "--apply", "--json", "--report", report)...)
	written := must(os.ReadFile(report))(t)
	check := func(want int, text string) string {
		t.Helper()
		if err := os.WriteFile(report, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs := command(t, want, append(forget, "--check", report)...)
		return errs
	}
	if out == string(written) {
		t.Error("the key is printed as it is written")
	}
	check(0, string(written))
	check(0, out)
	for _, text := range []string{
		out + `{"asked": [{"key": "someone else"}]}`,
		out + "trailing", // no JSON
		strings.Replace(out, "{", `{"asked": [{"key": "someone else", "records": 99}],`, 1),
		strings.Replace(out, `"asked"`, `"ASKED"`, 1),
		strings.Replace(out, `42`, `43`, 1),
		strings.Replace(out, "{", `{"more": 1,`, 1),
	} {
		contains(t, check(exitUsage, text), "the report "+report)
	}
	out, _ = command(t, 0, append(forget, "user:42", "--json")...)
	contains(t, check(exitUsage, out), "of a dry run")
}

// Keys are erased by a list, and the report names those that nobody had.
func TestEraseKeys(t *testing.T) {
	h := build(t, 20)
	list := filepath.Join(t.TempDir(), "keys.txt")
	if err := os.WriteFile(list, []byte("\ufeffuser:42:0001\r\nnobody\r\nuser:42:list\r\n\"user:42:\\xff\"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := command(t, 0, h.args("--keys", list, "--archive", h.archive, "--apply", "--report", h.report)...)
	contains(t, out, "cache: 1 records erased", "1 of these keys hold no record but another type, and stay", "file: 1 records erased", "main: 1 records erased", "3 records forgotten")
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
	args := append(h.args("--prefix", "user:42:", "--archive", h.archive, "--apply", "--report", h.report), "--rate", "400")
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
	for _, s := range e.Stores {
		if s.Report.Counts["erased"] != s.Asked[0].Records {
			t.Errorf("%s: %+v, %+v", s.Name, s.Asked, s.Report)
		}
	}
	// A kill between a day's change and the removal of its old files leaves these to be found as hidden.
	if a := e.Archives[0].Report.Asked[0]; e.Asked[0].Records != 580 || a.Records+a.Hidden != 90 || e.Digest != e.digest() {
		t.Errorf("after %d kills: %+v, %+v", kills, e.Asked, e.Archives[0].Report)
	}
	if held := h.holders(t, "user:42:0", "secret-of-42"); len(held) > 0 {
		t.Errorf("after: %q", held)
	}
}

// reports is two SQLite files that hold three records of the user 42 each, an archive that holds
// nothing, and the arguments of an erasure of that user.
type reports struct {
	one, other, empty, report, archive, down string
	db                                       *stdsql.DB // of one
	dir                                      string
}

func newReports(t *testing.T) *reports {
	t.Helper()
	r := &reports{dir: t.TempDir()}
	for i, uri := range []*string{&r.one, &r.other, &r.empty} {
		db, u := sessionsIn(t, 0)
		*uri = u
		for n := range 3 * (1 - i/2) {
			execute(t, db, "INSERT INTO sessions (id, value) VALUES (?, '{}')", fmt.Sprint("user:42:", n))
		}
		if i == 0 {
			r.db = db
		}
	}
	r.report, r.archive = filepath.Join(r.dir, "r.json"), filepath.Join(r.dir, "archive")
	must(archive.OpenDirectory(r.archive))(t)
	r.down = "sqlite:" + filepath.Join(r.dir, "none.db") + "?table=sessions"
	return r
}

// args returns the arguments of erase over stores, pairs of a name and a URI.
func (r *reports) args(t *testing.T, stores map[string]string, more ...string) []string {
	t.Helper()
	all := map[string]settings{}
	for name, uri := range stores {
		all[name] = settings{URI: uri}
	}
	config := filepath.Join(r.dir, "config.json")
	if err := os.WriteFile(config, must(json.Marshal(map[string]any{"stores": all}))(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return append([]string{"erase", "--config", config, "--rate", "0", "--writes", "0"}, more...)
}

// erase runs an erasure, and returns its report and what it told.
func (r *reports) erase(t *testing.T, want int, stores map[string]string, more ...string) (e erasure, told string) {
	t.Helper()
	out, errs := command(t, want, r.args(t, stores, append([]string{"--prefix", "user:42:", "--apply", "--yes", "--report", r.report}, more...)...)...)
	return *must(readErasure(r.report))(t), out + errs
}

// A report does not end without each store and archive that it has named, and a store that is done
// stays the same one.
func TestEraseResumedElsewhere(t *testing.T) {
	t.Run("a store left out", func(t *testing.T) {
		r := newReports(t)
		r.erase(t, exitUsage, map[string]string{"a": r.one, "b": r.down}, "--archive", r.archive)
		e, told := r.erase(t, exitUsage, map[string]string{"a": r.one}, "--archive", r.archive)
		contains(t, told, `no store "b"`)
		if !e.Ended.IsZero() {
			t.Errorf("%+v", e)
		}
	})
	t.Run("an archive left out", func(t *testing.T) {
		r := newReports(t)
		r.erase(t, exitUsage, map[string]string{"a": r.one, "b": r.down}, "--archive", r.archive)
		e, told := r.erase(t, exitUsage, map[string]string{"a": r.one, "b": r.other})
		contains(t, told, r.archive)
		if !e.Ended.IsZero() || e.Archives[0].Done {
			t.Errorf("%+v", e)
		}
		if e, _ = r.erase(t, 0, map[string]string{"a": r.one, "b": r.other}, "--archive", r.archive); e.Ended.IsZero() || !e.Archives[0].Done || e.Asked[0].Records != 6 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("a store restored meanwhile", func(t *testing.T) {
		r := newReports(t)
		w := must(archive.NewWriter(must(archive.OpenDirectory(r.archive))(t), nil))(t)
		if err := w.Write(t.Context(), "a", []archive.Record{{Key: "user:42:0", ExpiredAt: driver.Floor(time.Now().Add(-time.Hour))}}); err != nil {
			t.Fatal(err)
		}
		r.erase(t, exitUsage, map[string]string{"a": r.one, "b": r.down}, "--archive", r.archive)
		execute(t, r.db, "INSERT INTO sessions (id, value) VALUES ('user:42:0', '{}'), ('user:42:more', '{}')")
		stores := map[string]string{"a": r.one, "b": r.other}
		e, _ := r.erase(t, 0, stores, "--archive", r.archive)
		if e.Ended.IsZero() || e.Asked[0].Records != 7 || e.Stores[0].Report.Counts["erased"] != 5 || e.Archives[0].Report.Records != 1 {
			t.Errorf("%+v, %+v", e, e.Stores[0].Report)
		}
		command(t, 0, r.args(t, stores, "--check", r.report)...)
	})
	t.Run("another store by the name", func(t *testing.T) {
		r := newReports(t)
		r.erase(t, exitUsage, map[string]string{"a": r.empty, "b": r.down})
		e, told := r.erase(t, exitUsage, map[string]string{"a": r.one, "b": r.other})
		contains(t, told, "--same-store")
		if !e.Ended.IsZero() {
			t.Errorf("%+v", e)
		}
	})
}

// An erasure that has failed looks at all records again, for some may have been written, or restored,
// among those it has gone through.
func TestEraseWrittenBehind(t *testing.T) {
	r := newReports(t)
	execute(t, r.db, "DELETE FROM sessions")
	for i := range 300 {
		execute(t, r.db, "INSERT INTO sessions (id, value) VALUES (?, '{}')", fmt.Sprintf("user:42:%03d", i))
	}
	execute(t, r.db, "CREATE TRIGGER frozen BEFORE DELETE ON sessions WHEN old.id >= 'user:42:100' BEGIN SELECT RAISE(ABORT, 'this row is frozen'); END")
	stores, goesOn := map[string]string{"a": r.one}, []string{"--max-errors", "1", "--unchecked"}
	e, told := r.erase(t, exitPartly, stores, goesOn...)
	if e.Stores[0].Done || e.Stores[0].Report.Counts["erased"] != 100 {
		t.Errorf("%+v, %+v, %s", e, e.Stores[0].Report, told)
	}
	execute(t, r.db, "DROP TRIGGER frozen")
	execute(t, r.db, "INSERT INTO sessions (id, value) VALUES ('user:42:', '{}'), ('user:42:000', '{}')")
	e, told = r.erase(t, 0, stores, goesOn...)
	contains(t, told, "a: 301 records erased")
	if s := e.Stores[0]; !s.Done || e.Asked[0].Records != 301 || s.Report.Counts["erased"] != 302 {
		t.Errorf("%+v, %+v", e, s.Report)
	}
	command(t, 0, r.args(t, stores, "--check", r.report)...)
}

// A report that begins has nothing of another one by its name, whose run was killed and whose file is gone.
func TestEraseReportAnew(t *testing.T) {
	r := newReports(t)
	execute(t, r.db, "INSERT INTO sessions (id, value) VALUES ('user:43:0', '{}')")
	stores := map[string]string{"a": r.one, "b": r.down}
	r.erase(t, exitUsage, stores, "--archive", r.archive)
	days := must(json.Marshal(map[string]*archive.Report{r.archive: {Asked: []archive.Asked{{Prefix: "user:42:", Days: map[archive.Day]int64{archive.Quarantine: 7}}}}}))(t)
	if err := errors.Join(os.WriteFile(r.report+".days", days, 0o600), os.Remove(r.report)); err != nil {
		t.Fatal(err)
	}
	stores["b"] = r.other
	command(t, 0, r.args(t, stores, "--prefix", "user:43:", "--apply", "--yes", "--report", r.report, "--archive", r.archive)...)
	if e := must(readErasure(r.report))(t); e.Asked[0].Records != 1 || e.Archives[0].Report.Records != 0 {
		t.Errorf("%+v, %+v", e.Asked, e.Archives[0].Report)
	}
}

// A check is of the stores and archives of its report, and of what that asked for.
func TestEraseCheckElsewhere(t *testing.T) {
	r := newReports(t)
	w := must(archive.NewWriter(must(archive.OpenDirectory(r.archive))(t), nil))(t)
	if err := w.Write(t.Context(), "a", []archive.Record{{Key: "user:41", ExpiredAt: driver.Floor(time.Now().Add(-time.Hour))}}); err != nil {
		t.Fatal(err)
	}
	stores := map[string]string{"a": r.one}
	r.erase(t, 0, stores, "--archive", r.archive)
	check := r.args(t, stores, "--check", r.report)
	command(t, 0, check...)
	for _, more := range [][]string{{"--prefix", "nonsense"}, {"--keys", "nofile"}, {"user:42:1"}, {"--archive", r.archive}} {
		_, errs := command(t, exitUsage, append(slices.Clone(check), more...)...)
		contains(t, errs, "its report asks for")
	}
	command(t, 0, "archive", "forget", r.archive, "--check", r.report)
	command(t, exitUsage, "archive", "forget", r.archive, "user:42:1", "--check", r.report)
	command(t, exitUsage, "archive", "forget", r.archive, "--where", "a=1", "--check", r.report)
	command(t, exitUsage, "archive", "forget", t.TempDir(), "--check", r.report)
	if err := os.Rename(r.archive, r.archive+".away"); err != nil { // as a disk that is not mounted
		t.Fatal(err)
	}
	if err := os.Mkdir(r.archive, 0o700); err != nil {
		t.Fatal(err)
	}
	_, errs := command(t, exitFailed, check...)
	contains(t, errs, "has no day")
	command(t, exitFailed, "archive", "forget", r.archive, "--check", r.report)
	if err := errors.Join(os.Remove(r.archive), os.Rename(r.archive+".away", r.archive)); err != nil {
		t.Fatal(err)
	}
	_, errs = command(t, exitUsage, r.args(t, map[string]string{"a": r.empty}, "--check", r.report)...)
	contains(t, errs, "--same-store")
	command(t, 0, r.args(t, map[string]string{"a": r.empty}, "--check", r.report, "--same-store")...)
}

// A column of which the last value was forgotten is no fault of the report that is checked.
func TestForgetLastValue(t *testing.T) {
	dir := t.TempDir()
	b, report := must(archive.OpenDirectory(filepath.Join(dir, "archive")))(t), filepath.Join(dir, "r.json")
	for _, columns := range [][]archive.Column{nil, {archive.NewColumn("u", func(*archive.Record) (string, bool, error) { return "4711", true, nil })}} {
		w := must(archive.NewWriter(b, &archive.WriterOptions{Columns: columns}))(t)
		record := archive.Record{Key: fmt.Sprint("user:", len(columns)), ExpiredAt: driver.Floor(time.Now().Add(-time.Hour))}
		if err := w.Write(t.Context(), "a", []archive.Record{record}); err != nil {
			t.Fatal(err)
		}
	}
	forget := []string{"archive", "forget", filepath.Join(dir, "archive")}
	command(t, exitUsage, append(forget, "--where", "v=4711")...)
	out, _ := command(t, 0, append(forget, "--where", "u=4711", "--apply", "--yes", "--report", report)...)
	contains(t, out, "1 records forgotten", "1 records have no value in that column, and stay")
	command(t, 0, append(forget, "--check", report)...)
}

// A record that stays is not counted as erased, whether its removal fails, is undone by a trigger, or
// finds no such key. The archive is forgotten all the same, and again when the stores are done.
func TestEraseKept(t *testing.T) {
	r := newReports(t)
	execute(t, r.db, "INSERT INTO sessions (id, value) VALUES (?, '{}'), ('user:42:kept', '{}'), (CAST('user:42:blob' AS BLOB), '{}')", "user:42:"+strings.Repeat("k", 900))
	execute(t, r.db, "CREATE TRIGGER kept BEFORE DELETE ON sessions WHEN old.id = 'user:42:kept' BEGIN SELECT RAISE(IGNORE); END")
	w := must(archive.NewWriter(must(archive.OpenDirectory(r.archive))(t), nil))(t)
	died := func(key string) []archive.Record {
		return []archive.Record{{Key: key, ExpiredAt: driver.Floor(time.Now().Add(-time.Hour))}}
	}
	if err := w.Write(t.Context(), "sessions", died("user:42:dead")); err != nil {
		t.Fatal(err)
	}
	stores := map[string]string{"a": r.one}
	e, told := r.erase(t, exitPartly, stores, "--archive", r.archive)
	contains(t, told, "a: 3 records erased", "3 of them, because", "1 records forgotten")
	if a := e.Archives[0]; !e.Ended.IsZero() || e.Stores[0].Done || a.Done || e.Asked[0].Records != 3 || e.Stores[0].Report.Counts["erased"] != 3 || a.Report.Records != 1 {
		t.Errorf("%+v, %+v, %+v", e, e.Stores[0].Report, a.Report)
	}
	execute(t, r.db, "DROP TRIGGER kept")
	execute(t, r.db, "DELETE FROM sessions WHERE typeof(id) = 'blob' OR length(id) > 900")
	if err := w.Write(t.Context(), "sessions", died("user:42:late")); err != nil {
		t.Fatal(err)
	}
	if e, told = r.erase(t, 0, stores, "--archive", r.archive); e.Ended.IsZero() || !e.Archives[0].Done || e.Archives[0].Report.Records != 2 {
		t.Errorf("%+v, %s", e, told)
	}
	command(t, 0, r.args(t, stores, "--check", r.report)...)

	// Of keys, each has its own number.
	execute(t, r.db, "INSERT INTO sessions (id, value) VALUES ('1', '{}'), ('2', '{}')")
	execute(t, r.db, "CREATE TRIGGER kept BEFORE DELETE ON sessions WHEN old.id = '2' BEGIN SELECT RAISE(IGNORE); END")
	list, report := filepath.Join(r.dir, "keys"), filepath.Join(r.dir, "keys.json")
	if err := os.WriteFile(list, []byte("1\n2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, exitPartly, r.args(t, stores, "--keys", list, "--apply", "--yes", "--report", report)...)
	if e := must(readErasure(report))(t); e.Asked[0].Records != 1 || e.Asked[1].Records != 0 {
		t.Errorf("%+v", e.Asked)
	}
}

// A row that another program has written under a key that no record has is never taken for erased, whether it
// is asked for by a prefix or by name, and its check fails.
func TestEraseForeignKeys(t *testing.T) {
	r := newReports(t)
	keys := []string{"user:42:blob", "user:42:" + strings.Repeat("k", 1500), "user:42:\x00nul", "user:42:\xff", "user:42:0"}
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = strconv.Quote(key)
		if key != "user:42:0" {
			as := "TEXT"
			if i == 0 {
				as = "BLOB"
			}
			execute(t, r.db, "INSERT INTO sessions (id, value) VALUES (CAST(CAST(? AS BLOB) AS "+as+"), '{}')", key)
		}
	}
	file := filepath.Join(r.dir, "keys")
	if err := os.WriteFile(file, []byte(strings.Join(list, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	stores := map[string]string{"a": r.one}
	out, _ := command(t, 0, r.args(t, stores, "--keys", file)...)
	contains(t, out, "a: 5 records would be erased")
	for i, ask := range [][]string{{"--keys", file}, {"--prefix", "user:42:"}} {
		report := filepath.Join(r.dir, fmt.Sprint(i, ".json"))
		_, errs := command(t, exitPartly, r.args(t, stores, append(ask, "--apply", "--yes", "--report", report)...)...)
		contains(t, errs, "4 of them, because")
		if e := must(readErasure(report))(t); e.Stores[0].Done || !e.Ended.IsZero() || e.Stores[0].Report.Counts["erased"] != int64(1+i) {
			t.Errorf("%q: %+v, %+v", ask, e, e.Stores[0].Report)
		}
	}
}

// A write-ahead log that another connection keeps from being emptied is what the erasure has still to do.
func TestEraseBusyLog(t *testing.T) {
	r := newReports(t)
	path, _, _ := strings.Cut(strings.TrimPrefix(r.one, "sqlite:"), "?")
	held := func() bool {
		wal, err := os.ReadFile(path + "-wal")
		return err == nil && bytes.Contains(wal, []byte("user:42:"))
	}
	reader := must(must(stdsql.Open("sqlite", path))(t).BeginTx(t.Context(), nil))(t)
	t.Cleanup(func() { _ = reader.Rollback() })
	n := 0
	if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM sessions").Scan(&n); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	e, told := r.erase(t, exitFailed, map[string]string{"a": r.one})
	contains(t, told, "another connection prevents a checkpoint")
	if !held() || e.Stores[0].Done || !e.Ended.IsZero() || e.Stores[0].Asked[0].Records != 3 {
		t.Errorf("%v, %+v", held(), e)
	}
	_ = reader.Rollback()
	execute(t, r.db, "INSERT INTO sessions (id, value) VALUES ('user:42:', '{}'), ('user:42:new', '{}')")
	if e, _ = r.erase(t, 0, map[string]string{"a": r.one}); held() || !e.Stores[0].Done || e.Asked[0].Records != 5 || e.Stores[0].Report.Counts["erased"] != 5 {
		t.Errorf("%v, %+v, %+v", held(), e, e.Stores[0].Report)
	}
	command(t, 0, r.args(t, map[string]string{"a": r.one}, "--check", r.report)...)
}

// Free space that a transaction of another connection keeps from VACUUM is what the erasure has still to do.
func TestEraseBusyFile(t *testing.T) {
	r := newReports(t)
	path, _, _ := strings.Cut(strings.TrimPrefix(r.one, "sqlite:"), "?")
	execute(t, r.db, "PRAGMA secure_delete = OFF")
	execute(t, r.db, "PRAGMA journal_mode = DELETE")
	for i := range 100 {
		execute(t, r.db, "INSERT INTO sessions (id, value) VALUES (?, '{}')", fmt.Sprintf("user:42:%d", i+3))
	}
	execute(t, r.db, "DELETE FROM sessions")
	held := func() bool { return bytes.Contains(must(os.ReadFile(path))(t), []byte("user:42:")) }
	reader := must(must(stdsql.Open("sqlite", path))(t).BeginTx(t.Context(), nil))(t)
	t.Cleanup(func() { _ = reader.Rollback() })
	n := 0
	if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM sessions").Scan(&n); err != nil || n != 0 || !held() {
		t.Fatal(n, err, held())
	}
	e, told := r.erase(t, exitFailed, map[string]string{"a": r.one}, "--unchecked")
	contains(t, told, "VACUUM", "end the transactions of other connections")
	if !held() || e.Stores[0].Done || !e.Ended.IsZero() {
		t.Errorf("%v, %+v", held(), e)
	}
	_ = reader.Rollback()
	if e, _ = r.erase(t, 0, map[string]string{"a": r.one}, "--unchecked"); held() || !e.Stores[0].Done {
		t.Errorf("%v, %+v", held(), e)
	}
}

// An erasure of a DynamoDB table with a life table ends when that holds nothing of it either.
func TestEraseLifeTable(t *testing.T) {
	client, table, uri := dynamodbTable(t)
	ctx, lives := t.Context(), table+"-lives"
	d := must(dynamodb.New[any](client, table, &dynamodb.Options{LifeTable: lives, Hold: 24 * time.Hour, RetainedExpiry: "life"}))(t)
	if err := d.EnsureTable(ctx); err != nil {
		t.Fatal(err)
	}
	now := driver.Floor(time.Now())
	if _, err := d.Insert(ctx, "user:42:a", map[string]string{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, v any) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, must(json.Marshal(v))(t), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	write("layout.json", map[string]string{"life_table": lives, "hold": "1d", "retained_expiry": "life"})
	config := write("config.json", map[string]any{"stores": map[string]settings{"a": {URI: uri, Layout: "layout.json"}}})
	report := filepath.Join(dir, "42.json")
	ask := []string{"erase", "--config", config, "--prefix", "user:42:", "--apply", "--yes", "--report", report}
	held := func() (n int) {
		for _, of := range []string{table, lives} {
			n += int(must(client.Scan(ctx, &sdk.ScanInput{TableName: &of}))(t).Count)
		}
		return n
	}
	for range 2 {
		_, errs := command(t, exitPartly, ask...)
		contains(t, errs, "run this again in an hour")
		if e := must(readErasure(report))(t); held() != 1 || !e.Ended.IsZero() || e.Stores[0].Done || e.Asked[0].Records != 1 || e.Stores[0].Report.Counts["later"] != 1 {
			t.Errorf("%d are held; %+v, %+v", held(), e, e.Stores[0].Report)
		}
	}
	update := "SET slidingttl_doubt = :d"
	before := fmt.Sprint(2 * time.Now().Add(-2*time.Hour).UnixMicro())
	_, err := client.UpdateItem(ctx, &sdk.UpdateItemInput{
		TableName: &lives, Key: must(client.Scan(ctx, &sdk.ScanInput{TableName: &lives, AttributesToGet: []string{"pk"}}))(t).Items[0],
		UpdateExpression: &update, ExpressionAttributeValues: map[string]types.AttributeValue{":d": &types.AttributeValueMemberN{Value: before}},
	})
	if err != nil {
		t.Fatal(err)
	}
	command(t, 0, ask...)
	if e := must(readErasure(report))(t); held() != 0 || e.Ended.IsZero() || e.Asked[0].Records != 1 || e.Stores[0].Report.Counts["ended"] != 1 {
		t.Errorf("%d are held; %+v, %+v", held(), e, e.Stores[0].Report)
	}
	command(t, 0, "erase", "--config", config, "--check", report)
}

// What a report was asked for can be read from it.
func TestSelectionOf(t *testing.T) {
	for _, what := range []archive.Selection{{Keys: []string{"\xffuser:3:3", "nobody", "user:3:13"}}, {Prefix: "\xffu"}, {Column: "mark", Value: "\xfe"}} {
		slices.Sort(what.Keys)
		if got, err := selectionOf(what.Asked()); err != nil || !reflect.DeepEqual(got, what) {
			t.Errorf("%+v, %v; want %+v", got, err, what)
		}
	}
}
