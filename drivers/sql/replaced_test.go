package sql

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// keeps is the part of Check that asks for the triggers.
func (t *table) keeps(ctx context.Context) error {
	desc, err := t.describe(ctx)
	if err != nil {
		return err
	}
	return t.checkReplaced(desc)
}

// TestDeletes: a record deleted alive, by Delete, Remove or another program's statement, is handed
// over once, with that time of death. A dead one is, as it died before, and the sweeper hands over none twice.
func TestDeletes(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		mustExec(t, db, dialect, "DROP TABLE IF EXISTS sessions")
		mustExec(t, db, dialect, "DROP TABLE IF EXISTS sessions_replaced")
		d, err := New(db, dialect, "sessions", &Options[session]{Deletes: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := d.EnsureTable(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.keeps(ctx); err != nil {
			t.Error(err)
		}
		server, err := d.ask(ctx)
		if err != nil {
			t.Fatal(err)
		}
		now := driver.Floor(server.At)
		insert := func(key string, l driver.Life) driver.Meta {
			version, err := d.Insert(driver.WithOtherClock(ctx), key, session{User: key}, l, now)
			if err != nil {
				t.Fatal(err)
			}
			return driver.Meta{Life: l, Version: version}
		}
		alive := driver.Life{CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour)}
		removed := insert("removed", alive)
		for _, key := range []string{"kept", "deleted", "by another"} {
			insert(key, alive)
		}
		if err := d.Delete(ctx, "deleted"); err != nil {
			t.Fatal(err)
		}
		insert("deleted", driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}) // it lives again
		if err := d.Remove(ctx, "removed", removed, now); err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, dialect, "DELETE FROM sessions WHERE "+d.dialect.quote(d.key.Columns[0])+" = 'by another'")
		dead := driver.Life{CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(-time.Minute)}
		insert("swept", dead)
		insert("dead", dead)
		if err := d.Delete(ctx, "dead"); err != nil {
			t.Fatal(err)
		}
		got := map[string]driver.Dead{}
		s := d.mustSweeper(t, SweepOptions{Bury: func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
			for _, r := range dead {
				if _, twice := got[r.Key]; twice {
					t.Errorf("%q is handed over twice", r.Key)
				}
				got[r.Key] = r
			}
			return nil
		}})
		for range 2 {
			if err := s.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range []string{"deleted", "removed", "by another"} {
			r := got[key]
			if !r.Deleted || r.CreatedAt != alive.CreatedAt || r.At < now || r.At > now.Add(time.Minute) || len(r.Value) == 0 {
				t.Errorf("%q is handed over as %+v", key, r)
			}
		}
		if r := got["swept"]; r.Deleted || r.At != dead.ExpiresAt {
			t.Errorf("what was swept is handed over as %+v", r)
		}
		if r := got["dead"]; r.Deleted || r.At != dead.ExpiresAt {
			t.Errorf("what was deleted after its death is handed over as %+v", r)
		}
		if len(got) != 5 {
			t.Errorf("%d are handed over: %v", len(got), got)
		}
	})
}

// TestReplaced: each life of a key is handed over once, even if the next one replaced its row
// before a sweep. A touch, an overwrite of a live record and an adoption are no deaths.
func TestReplaced(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := driver.WithOtherClock(t.Context())
		for name, o := range map[string]*Options[session]{
			"bigint":  {Replaced: true},
			"instant": {Replaced: true, CreatedAt: TimeColumn{Type: DateTime}, ExpiresAt: TimeColumn{Type: Timestamp}},
		} {
			mustExec(t, db, dialect, "DROP TABLE IF EXISTS sessions")
			mustExec(t, db, dialect, "DROP TABLE IF EXISTS sessions_replaced")
			d, err := New(db, dialect, "sessions", o)
			if err != nil {
				t.Fatal(err)
			}
			var invalid *driver.InvalidError
			if err := d.keeps(ctx); !errors.As(err, &invalid) {
				t.Errorf("%s: without its table: %v", name, err)
			}
			for range 2 { // the second time it exists already
				if err := d.EnsureTable(ctx); err != nil {
					t.Fatal(name, err)
				}
			}
			if err := d.keeps(ctx); err != nil {
				t.Error(name, err)
			}
			var want []string
			now := base
			lived := func(user string, l driver.Life, died driver.Instant) {
				want = append(want, fmt.Sprint(user, l.CreatedAt, died))
			}
			insert := func(key string, v session, l driver.Life) driver.Meta {
				version, err := d.Insert(ctx, key, v, l, now)
				if err != nil {
					t.Fatal(err)
				}
				return driver.Meta{Life: l, Version: version}
			}
			life := func() driver.Life { return driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Minute)} }
			for i := range 5 { // by Insert
				l := life()
				m := insert("k", session{User: fmt.Sprint(i)}, l)
				if m.Version, err = d.Touch(ctx, "k", m, driver.Life{CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt + 1}, now); err != nil {
					t.Fatal(err)
				}
				m.ExpiresAt++
				if m.Version, err = d.Replace(ctx, "k", session{User: fmt.Sprint(i)}, m, m.Life, now); err != nil {
					t.Fatal(err)
				}
				lived(fmt.Sprint(i), l, m.ExpiresAt)
				now = now.Add(time.Hour)
			}
			rules := driver.Access{At: now, Keep: 60000, Stored: 60000, Most: driver.Instant(24 * time.Hour / time.Millisecond)}
			l := life() // by Overwrite, twice: the second one finds it alive
			for range 2 {
				if _, err := d.Overwrite(ctx, "k", session{User: "over"}, l, rules, now); err != nil {
					t.Fatal(err)
				}
			}
			lived("over", l, l.ExpiresAt)
			now = now.Add(time.Hour)
			l = driver.Life{CreatedAt: now, ExpiresAt: now.Add(48 * time.Hour)} // dead of age, when the next begins
			rules.At = now
			if _, err := d.Overwrite(ctx, "k", session{User: "aged"}, l, rules, now); err != nil {
				t.Fatal(err)
			}
			now = now.Add(25 * time.Hour)
			lived("aged", l, now)
			last := life()
			rules.At = now
			if m, err := d.Overwrite(ctx, "k", session{User: "last"}, last, rules, now); err != nil {
				t.Fatal(err)
			} else if m.CreatedAt != now { // MySQL judges by the expiry
				if err := d.Delete(ctx, "k"); err != nil {
					t.Fatal(err)
				}
				want = want[:len(want)-1]
				insert("k", session{User: "last"}, last)
			}
			// A foreign row is adopted; another, dead, is replaced.
			m := insert("foreign", session{User: "foreign"}, driver.Life{ExpiresAt: now.Add(time.Minute)})
			if _, err := d.Replace(ctx, "foreign", session{User: "adopted"}, m, life(), now); err != nil {
				t.Fatal(err)
			}
			insert("dead", session{User: "dead"}, driver.Life{ExpiresAt: now - 1}) // by a program that had another time
			lived("dead", driver.Life{}, now-1)
			if _, err := d.Insert(ctx, "dead", session{User: "new"}, life(), now); err != nil {
				t.Fatal(err)
			}

			var got []string
			failing := errors.New("the archive is full")
			s := d.mustSweeper(t, SweepOptions{Batch: 3, Now: at(base), Bury: func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
				for _, r := range dead {
					if r.Key != "k" && r.Key != "dead" || r.Format != "json" || len(r.Value) == 0 || r.At != r.ExpiresAt {
						t.Errorf("%+v", r)
					}
					user := string(r.Value)
					for _, u := range []string{"0", "1", "2", "3", "4", "over", "aged", "dead"} {
						if slices.Contains([]string{`{"user":"` + u + `"}`, `{"user": "` + u + `"}`}, string(r.Value)) {
							user = u
						}
					}
					if failing == nil {
						got = append(got, fmt.Sprint(user, r.CreatedAt, r.At))
					}
				}
				return failing
			}})
			if err := s.Sweep(ctx); !errors.Is(err, failing) {
				t.Errorf("%s: while Bury fails: %v", name, err)
			}
			failing = nil
			for range 2 {
				if err := s.Sweep(ctx); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: handed over\n%q\nwant\n%q", name, got, want)
			}
		}
	})
}

// A person's lives that wait for a sweeper are erased, and no others; without the table there are none.
func TestEraseEnded(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		mustExec(t, db, dialect, "DROP TABLE IF EXISTS sessions")
		mustExec(t, db, dialect, "DROP TABLE IF EXISTS sessions_replaced")
		plain, err := New(db, dialect, "sessions", &Options[session]{})
		if err != nil {
			t.Fatal(err)
		}
		of := func(prefix string) driver.Erasure { return driver.Erasure{Prefix: prefix} }
		if n, _, err := plain.EraseEnded(ctx, of("user:"), true); n != 0 || err != nil {
			t.Errorf("without a table: %d, %v", n, err)
		}
		d, err := New(db, dialect, "sessions", &Options[session]{Deletes: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.EnsureTable(ctx); err != nil {
			t.Fatal(err)
		}
		now := driver.Floor(time.Now())
		for i := range 7 {
			key := fmt.Sprintf("user:%d:a", i%2)
			if _, err := d.Insert(ctx, key, session{User: key}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
				t.Fatal(err)
			}
			if err := d.Delete(ctx, key); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []int64{4, 4, 0} {
			if n, _, err := plain.EraseEnded(ctx, of("user:0:"), i > 0); n != want || err != nil {
				t.Errorf("%d, %v; want %d", n, err, want)
			}
		}
		if n, _, err := plain.EraseEnded(ctx, of("u"), false); n != 3 || err != nil {
			t.Errorf("%d of others are left, %v", n, err)
		}
	})
}

// TestKeptKind: Check refuses a table of Options.Replaced and Options.Deletes whose rows are not undone with
// a transaction, or not all seen, and a reference by which rows go without a trigger.
func TestKeptKind(t *testing.T) {
	for name, c := range map[string]struct {
		db     string
		change []string // %[1]s is the table, %[2]s the user
		opts   Options[session]
		want   string // empty: it is good
	}{
		"mysql, engine":         {"mariadb", []string{"ALTER TABLE %[1]s_replaced ENGINE=MyISAM"}, Options[session]{Deletes: true}, "engine"},
		"mysql, cascade":        {"mariadb", []string{"CREATE TABLE %[1]s_users (id INT PRIMARY KEY)", "ALTER TABLE %[1]s ADD COLUMN user_id INT, ADD FOREIGN KEY (user_id) REFERENCES %[1]s_users (id) ON DELETE CASCADE"}, Options[session]{Deletes: true}, "CASCADE"},
		"mysql, set null":       {"mariadb", []string{"CREATE TABLE %[1]s_users (id INT PRIMARY KEY)", "ALTER TABLE %[1]s ADD COLUMN user_id INT, ADD FOREIGN KEY (user_id) REFERENCES %[1]s_users (id) ON DELETE SET NULL"}, Options[session]{Deletes: true}, ""},
		"mysql, replaced":       {"mariadb", []string{"CREATE TABLE %[1]s_users (id INT PRIMARY KEY)", "ALTER TABLE %[1]s ADD COLUMN user_id INT, ADD FOREIGN KEY (user_id) REFERENCES %[1]s_users (id) ON DELETE CASCADE"}, Options[session]{Replaced: true}, ""},
		"mysql, another":        {"mariadb", []string{"ALTER TABLE %[1]s_replaced DROP COLUMN died_at"}, Options[session]{Deletes: true}, "another table"},
		"postgres, no policy":   {"postgres", []string{"ALTER TABLE %[1]s_replaced ENABLE ROW LEVEL SECURITY"}, Options[session]{Deletes: true}, "row security"},
		"postgres, half a view": {"postgres", []string{"ALTER TABLE %[1]s_replaced ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON %[1]s_replaced FOR INSERT TO %[2]s WITH CHECK (true)"}, Options[session]{Replaced: true}, "row security"},
		"postgres, cascade":     {"postgres", []string{"CREATE TABLE %[1]s_users (id INT PRIMARY KEY)", "ALTER TABLE %[1]s ADD COLUMN user_id INT REFERENCES %[1]s_users (id) ON DELETE CASCADE"}, Options[session]{Deletes: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			of := databases[c.db]
			client, dsn := sqltest.DSN(t, of.server)
			root, err := stdsql.Open(client, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = root.Close() }()
			made := open(t, root, of.dialect, &c.opts)
			user := fmt.Sprintf("kind%d", tables.Add(1))
			mustExec(t, root, of.dialect, "CREATE USER "+user)
			as, drop := strings.Replace(dsn, "root@", user+"@", 1), []string{"DROP USER " + user}
			if of.dialect == PostgreSQL {
				mustExec(t, root, of.dialect, "GRANT USAGE ON SCHEMA "+dsn[strings.LastIndexByte(dsn, '=')+1:]+" TO "+user)
				as, drop = strings.Replace(dsn, "user=postgres", "user="+user, 1), append([]string{"DROP OWNED BY " + user}, drop...)
			}
			defer func() {
				for _, s := range drop {
					_, _ = root.ExecContext(context.Background(), s)
				}
			}()
			for _, table := range []string{made.quoted(), made.replacedTable()} {
				mustExec(t, root, of.dialect, fmt.Sprintf(grant, table, user))
			}
			for _, s := range c.change {
				mustExec(t, root, of.dialect, fmt.Sprintf(s+"%.0[2]s", made.name, user))
			}
			db, err := stdsql.Open(client, as)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			d, err := New(db, of.dialect, made.name, &c.opts)
			if err != nil {
				t.Fatal(err)
			}
			err = d.Check(t.Context(), time.Hour)
			if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check: %v; want it to name %q", err, c.want)
			}
			if c.want == "" { // this user may make nothing, and has nothing to make
				left, err := d.Schema(t.Context(), "")
				if err = errors.Join(err, d.EnsureTable(t.Context())); err != nil || len(left) > 0 {
					t.Errorf("where all is made EnsureTable: %v; Schema: %q", err, left)
				}
			}
		})
	}
}

// TestOlderTriggers: Check refuses triggers of other Options by name. EnsureTable brings them up to date, and an
// archive then gets from them what it gets from a sweeper; a second time there is nothing to do.
func TestOlderTriggers(t *testing.T) {
	type before struct{ A string }
	type after struct{ A, B string }
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		text := map[Dialect]string{MySQL: "VARCHAR(50)", SQLite: "TEXT", PostgreSQL: `text COLLATE "C"`}[dialect]
		if dialect == MySQL {
			mustExec(t, db, dialect, "CREATE TABLE shops (id VARBINARY(50) PRIMARY KEY, a VARCHAR(50))")
			mustExec(t, db, dialect, "CREATE TABLE shops_replaced (id BIGINT AUTO_INCREMENT PRIMARY KEY, key0 VARBINARY(50), created_at BIGINT NOT NULL, died_at BIGINT NOT NULL, version BIGINT NOT NULL, deleted BIGINT NOT NULL, value LONGTEXT CHARACTER SET utf8mb4)")
		} else {
			mustExec(t, db, dialect, "CREATE TABLE shops (id "+text+" NOT NULL PRIMARY KEY, a "+text+")")
		}
		old, err := New(db, dialect, "shops", &Options[before]{Deletes: true, Replaced: true, Row: Row[before]{Columns: []string{"a"}, Fields: func(r *before) []any { return []any{&r.A} }}})
		if err == nil {
			err = errors.Join(old.EnsureTable(ctx), old.Check(ctx, time.Hour))
		}
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, dialect, "ALTER TABLE shops ADD COLUMN b "+text)
		d, err := New(db, dialect, "shops", &Options[after]{Deletes: true, Replaced: true, Row: Row[after]{Columns: []string{"a", "b"}, Fields: func(r *after) []any { return []any{&r.A, &r.B} }}})
		if err != nil {
			t.Fatal(err)
		}
		err = d.Check(ctx, time.Hour)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "shops_replaced") || !strings.Contains(err.Error(), "EnsureTable") {
			t.Errorf("Check: %v", err)
		}
		if err := errors.Join(d.EnsureTable(ctx), d.Check(ctx, time.Hour)); err != nil {
			t.Fatal(err)
		}
		if left, err := d.Schema(ctx, ""); err != nil || len(left) > 0 {
			t.Errorf("after EnsureTable Schema has %q, %v", left, err)
		}
		now := driver.Floor(d.Now())
		life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
		for _, key := range []string{"deleted", "replaced", "swept"} {
			if _, err := d.Insert(ctx, key, after{"a", "b"}, life, now); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Delete(ctx, "deleted"); err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, dialect, "UPDATE shops SET created_at = 500, expires_at = 1000, sweep_at = 1000")
		if _, err := d.Insert(ctx, "replaced", after{}, life, now); err != nil {
			t.Fatal(err)
		}
		if buried := d.buryAll(t); len(buried) != 3 {
			t.Errorf("%d are buried", len(buried))
		} else {
			for _, b := range buried {
				if !sameJSON(b.Value, `{"a": "a", "b": "b"}`) {
					t.Errorf("%s is buried as %s", b.Key, b.Value)
				}
			}
		}
	})
}

// buryAll sweeps once, and returns what was handed over.
func (t *table) buryAll(test testing.TB) (all []driver.Dead) {
	test.Helper()
	s, err := t.Sweeper(&SweepOptions{Bury: func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
		all = append(all, dead...)
		return nil
	}})
	if err == nil {
		err = s.Sweep(test.Context())
	}
	if err != nil {
		test.Error(err)
	}
	return all
}

// TestKeptBytes: a key of bytes, one longer than MaxKey, and a value of bytes that are no text, are handed over as
// the row has them, whoever deletes it.
func TestKeptBytes(t *testing.T) {
	for name, c := range map[string]struct{ db, key string }{
		"mariadb, BINARY": {"mariadb", "BINARY(16)"}, "mariadb, VARBINARY": {"mariadb", "VARBINARY(500)"}, "mariadb, UUID": {"mariadb", "UUID"},
		"sqlite": {"sqlite", "BLOB NOT NULL"}, "postgres": {"postgres", "bytea"}, "postgres, date": {"postgres", "date"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, of := t.Context(), databases[c.db]
			db := sqltest.DB(t, of.server)
			value := map[Dialect]string{MySQL: "LONGBLOB", SQLite: "BLOB", PostgreSQL: "jsonb"}[of.dialect]
			mustExec(t, db, of.dialect, "CREATE TABLE bytes (id "+c.key+" PRIMARY KEY, value "+value+")")
			key := Key{
				Split: func(key string) ([]any, error) { b, err := hex.DecodeString(key); return []any{b}, err },
				Join:  func(columns []string) string { return hex.EncodeToString([]byte(columns[0])) },
			}
			keys := []string{"ff00112233445566778899aabbccddee", "61616161616161616161616161610000", "fe00112233445566778899aabbccddee"}
			if c.key == "UUID" {
				key = Key{}
				keys = []string{"123e4567-e89b-12d3-a456-426655440000", "223e4567-e89b-12d3-a456-426655440000", "323e4567-e89b-12d3-a456-426655440000"}
			}
			if c.key == "date" {
				key = Key{
					Split: func(key string) ([]any, error) { at, err := time.Parse(time.DateOnly, key); return []any{at}, err },
					Join:  func(columns []string) string { return strings.TrimSuffix(columns[0], "T00:00:00Z") },
				}
				keys = []string{"2026-02-01", "2026-02-02", "2026-02-03"}
			}
			d, err := New(db, of.dialect, "bytes", &Options[json.RawMessage]{Deletes: true, Replaced: true, Key: key})
			if err == nil {
				err = errors.Join(d.EnsureTable(ctx), d.Check(ctx, time.Hour))
			}
			if err != nil {
				t.Fatal(err)
			}
			now := driver.Floor(d.Now())
			life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
			v := `"ann"`
			if of.dialect == MySQL {
				v = "\"x\xffy\""
			}
			for _, k := range keys {
				if _, err := d.Insert(ctx, k, json.RawMessage(v), life, now); err != nil {
					t.Fatal(err)
				}
				if raw, err := d.Raw(ctx, k); err != nil || string(raw.Value) != v {
					t.Errorf("Raw: %q, %v", raw.Value, err)
				}
			}
			if err := d.Delete(ctx, keys[0]); err != nil {
				t.Errorf("Delete: %v", err)
			}
			if n, _, err := d.EraseEnded(ctx, driver.Erasure{Keys: keys[:1]}, false); n != 1 || err != nil {
				t.Errorf("EraseEnded finds %d, %v; want 1", n, err)
			}
			if of.dialect == PostgreSQL { // as an older release kept it
				mustExec(t, db, of.dialect, "ALTER TABLE bytes_replaced ALTER COLUMN key0 TYPE text")
				if err := d.Check(ctx, time.Hour); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "key0") {
					t.Errorf("Check of a key kept as text: %v", err)
				}
				if err := errors.Join(d.EnsureTable(ctx), d.Check(ctx, time.Hour)); err != nil {
					t.Error(err)
				}
			}
			if c.key == "VARBINARY(500)" { // another program's
				long := hex.EncodeToString(bytes.Repeat([]byte{0xff, 'k'}, 200))
				mustExec(t, db, of.dialect, "INSERT INTO bytes (id, value) VALUES (x'"+long+"', '"+v+"')")
				mustExec(t, db, of.dialect, "DELETE FROM bytes WHERE id = x'"+long+"'")
				keys = append(keys, long)
			}
			mustExec(t, db, of.dialect, "UPDATE bytes SET created_at = 500, expires_at = 1000, sweep_at = 1000")
			if _, err := d.Insert(ctx, keys[1], json.RawMessage("1"), life, now); err != nil {
				t.Errorf("Insert over a dead one: %v", err)
			}
			var buried []string
			for _, b := range d.buryAll(t) {
				buried = append(buried, b.Key)
				if string(b.Value) != v {
					t.Errorf("%s is buried with %q", b.Key, b.Value)
				}
			}
			slices.Sort(buried)
			slices.Sort(keys)
			if !slices.Equal(buried, keys) {
				t.Errorf("%q are buried; want %q", buried, keys)
			}
		})
	}
}

// TestDeletesBeforeTheClock: a sweeper whose Now is ahead hands over each row that it deletes once, though it lives by
// the database's time.
func TestDeletesBeforeTheClock(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		for _, guarded := range []int{0, 1} {
			d := open(t, db, dialect, &Options[session]{Deletes: true, Replaced: true})
			now := driver.Floor(d.Now())
			for i := range 20 {
				d.mustInsert(t, fmt.Sprint("k", i), session{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)})
			}
			if guarded > 0 {
				d.mustInsert(t, "guarded", session{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)})
				if err := guard(t.Context(), db, d, "guarded", "DELETE"); err != nil {
					t.Fatal(err)
				}
			}
			graves := d.name + "_graves"
			mustExec(t, db, dialect, "CREATE TABLE "+graves+" (id VARCHAR(20))")
			s := d.mustSweeper(t, SweepOptions{Batch: 7, Now: at(now.Add(2 * time.Hour)), Bury: func(ctx context.Context, tx *stdsql.Tx, dead []driver.Dead) (err error) {
				for _, x := range dead {
					_, failed := tx.ExecContext(ctx, "INSERT INTO "+graves+" VALUES ('"+x.Key+"')")
					err = errors.Join(err, failed)
				}
				return err
			}})
			for range 2 {
				if err := s.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			var kept, buried, different int
			err := db.QueryRowContext(t.Context(), "SELECT (SELECT COUNT(*) FROM "+d.replacedTable()+"), COUNT(*), COUNT(DISTINCT id) FROM "+graves).Scan(&kept, &buried, &different)
			if err != nil || kept != 0 || buried != 20 || different != 20 || d.rows(t) != guarded {
				t.Errorf("guarded=%d: %d lives are kept, %d buried, %d different, and %d rows are left, %v; want 20 buried", guarded, kept, buried, different, d.rows(t), err)
			}
		}
	})
}

// TestTurnedOff: Schema and EnsureTable drop a trigger that the options do not ask for any more, or of the table's
// name before; until then no sweep hands a life over twice, or keeps one for ever.
func TestTurnedOff(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		for _, o := range []Options[session]{{}, {Replaced: true}, {Deletes: true}} {
			on := open(t, db, dialect, &Options[session]{Deletes: true, Replaced: true})
			d, err := New(db, dialect, on.name, &o)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Check(ctx, time.Hour); o.Replaced || o.Deletes {
				if !errors.Is(err, driver.ErrInvalid) {
					t.Errorf("Check: %v", err)
				}
			}
			bury := d.mustSweeper(t, SweepOptions{Bury: func(context.Context, *stdsql.Tx, []driver.Dead) error { return nil }})
			if err := bury.Sweep(ctx); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), on.name) {
				t.Errorf("Sweep: %v", err)
			}
			if statements, err := d.Schema(ctx, ""); err != nil || !strings.Contains(fmt.Sprint(statements), "DROP TRIGGER IF EXISTS") {
				t.Errorf("Schema: %q, %v", statements, err)
			}
			if err := errors.Join(d.EnsureTable(ctx), d.Check(ctx, time.Hour), bury.Sweep(ctx)); err != nil {
				t.Error(err)
			}
			if left, err := d.Schema(ctx, ""); err != nil || len(left) > 0 {
				t.Errorf("after EnsureTable Schema has %q, %v", left, err)
			}
		}
		d := open(t, db, dialect, &Options[session]{Deletes: true, Replaced: true})
		for _, suffix := range []string{"", replacedSuffix} {
			mustExec(t, db, dialect, "ALTER TABLE "+d.name+suffix+" RENAME TO new"+d.name+suffix)
		}
		d = ensured(t, db, dialect, "new"+d.name)
		d.mustInsert(t, "a", session{"ann"}, lasting(time.Hour))
		if err := d.Delete(ctx, "a"); err != nil {
			t.Errorf("of a renamed table: %v", err)
		}
	})
}

// TestKeptSchema: on PostgreSQL the table of a table in one schema of the search_path is made, and looked for, in that.
func TestKeptSchema(t *testing.T) {
	ctx := t.Context()
	client, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	root := sqltest.DB(t, sqltest.PostgreSQL)
	tenant := fmt.Sprintf("tenant%d", tables.Add(1))
	mustExec(t, root, PostgreSQL, "CREATE SCHEMA "+tenant)
	t.Cleanup(func() { _, _ = root.ExecContext(context.Background(), "DROP SCHEMA "+tenant+" CASCADE") })
	both, err := stdsql.Open(client, strings.Replace(dsn, "search_path=", "search_path="+tenant+",", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = both.Close() }()
	common := open(t, opened(t, client, dsn), PostgreSQL, &Options[session]{Replaced: true, Deletes: true})
	mustExec(t, both, PostgreSQL, "CREATE TABLE "+tenant+"."+common.name+" (LIKE "+common.name+" INCLUDING ALL)")
	d := ensured(t, both, PostgreSQL, common.name)
	d.mustInsert(t, "a", session{"ann"}, lasting(time.Hour))
	if err := d.Delete(ctx, "a"); err != nil {
		t.Error(err)
	}
	if n := len(d.buryAll(t)); n != 1 {
		t.Errorf("%d are buried", n)
	}
}

// opened opens a database that the test closes.
func opened(t *testing.T, client, dsn string) *stdsql.DB {
	db, err := stdsql.Open(client, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestReplacedReset: an application's own overwrite that resets a life, as README has it, ends the life before.
func TestReplacedReset(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		key := map[Dialect]string{MySQL: "VARBINARY(50)", SQLite: "TEXT", PostgreSQL: `text COLLATE "C"`}[dialect]
		conflict := " ON CONFLICT (id) DO UPDATE SET url = excluded.url"
		if dialect == MySQL {
			conflict = " ON DUPLICATE KEY UPDATE url = VALUES(url)"
		}
		mustExec(t, db, dialect, "CREATE TABLE links (id "+key+" NOT NULL PRIMARY KEY, url VARCHAR(20))")
		d, err := New(db, dialect, "links", &Options[session]{LifeOnly: true, Replaced: true})
		if err == nil {
			err = errors.Join(d.EnsureTable(ctx), d.Check(ctx, time.Hour))
		}
		if err != nil {
			t.Fatal(err)
		}
		now := driver.Floor(d.Now())
		hour := driver.Instant(3600000)
		mustExec(t, db, dialect, fmt.Sprintf("INSERT INTO links (id, url, created_at, expires_at) VALUES ('dead', '', %d, %d), ('living', '', %[1]d, %[3]d), ('never seen', '', NULL, NULL)", now-2*hour, now-hour, now+hour))
		for range 2 { // the second time there is nothing to end
			for _, id := range []string{"dead", "living", "never seen", "new"} {
				mustExec(t, db, dialect, "INSERT INTO links (id, url) VALUES ('"+id+"', 'next')"+conflict+", created_at = NULL, expires_at = NULL, version = NULL, sweep_at = 0")
			}
		}
		var got []string
		for _, b := range d.buryAll(t) {
			got = append(got, b.Key)
			if ends := b.At == now-hour; ends != (b.Key == "dead") || b.At > now.Add(time.Minute) {
				t.Errorf("%s: %+v", b.Key, b)
			}
		}
		if slices.Sort(got); !slices.Equal(got, []string{"dead", "living"}) {
			t.Errorf("%q are buried", got)
		}
	})
}

// TestRemade: while EnsureTable, or Schema's statements, bring SQLite's triggers up to date, no delete of another
// process goes without one.
func TestRemade(t *testing.T) {
	ctx, dsn := t.Context(), sqltest.SQLiteDSN(filepath.Join(t.TempDir(), "remade.db"))
	dbs := []*stdsql.DB{opened(t, "sqlite", dsn), opened(t, "sqlite", dsn)}
	mustExec(t, dbs[0], SQLite, "CREATE TABLE remade (id TEXT NOT NULL PRIMARY KEY, a TEXT, b TEXT)")
	var of []*Driver[shop]
	for i, db := range dbs {
		d, err := New(db, SQLite, "remade", &Options[shop]{Deletes: true, Row: Row[shop]{Columns: []string{"a", "b"}[i : i+1], Fields: func(s *shop) []any { return []any{&s.Owner} }}})
		if err == nil {
			err = d.EnsureTable(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		of = append(of, d)
	}
	now, n := driver.Floor(of[0].Now()), 0
	for round := range 40 {
		done := make(chan error, 1)
		go func() {
			d := of[round%2]
			if round%4 < 2 {
				done <- d.EnsureTable(ctx)
				return
			}
			statements, err := d.Schema(ctx, "")
			for _, s := range statements {
				if err == nil {
					_, err = dbs[round%2].ExecContext(ctx, s)
				}
			}
			done <- err
		}()
		for len(done) == 0 {
			key := fmt.Sprint("k", n)
			if _, err := of[0].Insert(ctx, key, shop{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
				t.Fatal(err)
			}
			if err := of[0].Delete(ctx, key); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if kept := len(of[1].buryAll(t)); kept != n {
		t.Errorf("%d of %d deletes are kept", kept, n)
	}
}

// TestEnsuredAtOnce: several processes may call EnsureTable at once.
func TestEnsuredAtOnce(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		for round := range 4 {
			var group errgroup.Group
			for range 6 {
				group.Go(func() error {
					d, err := New(db, dialect, fmt.Sprint("at_once", round), &Options[session]{Deletes: true, Replaced: true})
					if err == nil {
						err = d.EnsureTable(t.Context())
					}
					return err
				})
			}
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			ensured(t, db, dialect, fmt.Sprint("at_once", round))
		}
	})
}

// TestOlderSQLite: what another program's SQLite executes, of an older release, is in the triggers.
func TestOlderSQLite(t *testing.T) {
	d := open(t, sqltest.DB(t, sqltest.SQLite), SQLite, &Options[session]{Replaced: true, Deletes: true, CreatedAt: TimeColumn{Type: DateTime}, ExpiresAt: TimeColumn{Type: Timestamp}})
	desc, err := d.describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range desc.enabled {
		if strings.Contains(text, "unixepoch") {
			t.Errorf("%s needs SQLite 3.42: %s", name, text)
		}
	}
}
