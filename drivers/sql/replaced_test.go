package sql

import (
	"context"
	stdsql "database/sql"
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
	return t.checkReplaced(ctx, desc)
}

// TestDeletes: a record deleted alive, by Delete, Remove or another program's statement, is handed
// over once, with that time of death. A dead one is not, and the sweeper hands over none twice.
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
		if len(got) != 4 {
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
