package sql

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
		"sqlite": {"sqlite", "BLOB NOT NULL"}, "postgres": {"postgres", "bytea"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, of := t.Context(), databases[c.db]
			db := sqltest.DB(t, of.server)
			value := map[Dialect]string{MySQL: "LONGBLOB", SQLite: "BLOB", PostgreSQL: "jsonb"}[of.dialect]
			mustExec(t, db, of.dialect, "CREATE TABLE bytes (id "+c.key+" PRIMARY KEY, value "+value+")")
			key := Key{
				Split: func(key string) ([]any, error) { b, err := hex.DecodeString(key); return []any{b}, err },
				Join: func(columns []string) string {
					if h, ok := strings.CutPrefix(columns[0], `\x`); ok { // bytea as text
						return h
					}
					return hex.EncodeToString([]byte(columns[0]))
				},
			}
			keys := []string{"ff00112233445566778899aabbccddee", "61616161616161616161616161610000", "fe00112233445566778899aabbccddee"}
			if c.key == "UUID" {
				key = Key{}
				keys = []string{"123e4567-e89b-12d3-a456-426655440000", "223e4567-e89b-12d3-a456-426655440000", "323e4567-e89b-12d3-a456-426655440000"}
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
