package sql

import (
	stdsql "database/sql"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestReadTouch(t *testing.T) {
	access := driver.Access{At: base, Keep: driver.Instant(time.Hour.Milliseconds()), Stored: driver.Instant(time.Hour.Milliseconds()) + 7, Most: driver.Instant((2 * time.Hour).Milliseconds()), Step: time.Millisecond}
	promote := access
	promote.Keep, promote.Promote = driver.MaxInstant, true
	endless := access
	endless.Most = driver.MaxInstant
	for what, c := range map[string]struct {
		life    driver.Life
		access  driver.Access
		now     driver.Instant
		touched bool
	}{
		"due":                  {lasting(time.Minute), access, base, true},
		"due at the cap":       {driver.Life{CreatedAt: base - 90*60e3, ExpiresAt: base.Add(time.Minute)}, access, base, true},
		"not due":              {lasting(time.Hour), access, base, false},
		"at its cap":           {driver.Life{CreatedAt: base - 90*60e3, ExpiresAt: base + 30*60e3}, access, base, false},
		"to be promoted":       {lasting(time.Hour), promote, base, true},
		"without a cap":        {lasting(time.Minute), endless, base, true},
		"dead":                 {lasting(time.Minute), access, base.Add(time.Minute), false},
		"without created_at":   {driver.Life{ExpiresAt: base.Add(time.Minute)}, access, base, false},
		"without an expiry":    {driver.Life{CreatedAt: base}, access, base, false},
		"of a foolish instant": {driver.Life{CreatedAt: driver.MaxInstant - 1, ExpiresAt: base.Add(time.Minute)}, access, base, true},
	} {
		t.Run(what, func(t *testing.T) {
			onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
				d := open[session](t, db, dialect, nil)
				was := d.mustInsert(t, "k", session{"ann"}, c.life)
				want := was
				if c.touched {
					want.Life, _ = c.access.Touch(was.Life)
				}
				e, touched, err := d.ReadTouch(t.Context(), "k", nil, c.access, c.now)
				if err != nil || touched != c.touched || e.Meta != want || e.Value.User != "ann" {
					t.Errorf("%+v, %v, %v; want %+v, %v", e, touched, err, want, c.touched)
				}
				if e := d.mustGet(t, "k"); e.Meta != want {
					t.Errorf("stored is %+v, want %+v", e.Meta, want)
				}
			})
		})
	}
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d := open[session](t, db, dialect, nil)
		if _, touched, err := d.ReadTouch(t.Context(), "k", nil, access, base); !errors.Is(err, driver.ErrNotFound) || touched {
			t.Errorf("of an absent key: %v, %v", touched, err)
		}
	})
}

// TestReadTouchReadOnly: a touch that is not possible is no error.
func TestReadTouchReadOnly(t *testing.T) {
	for name, setting := range map[string]string{"postgres": "SET default_transaction_read_only = on", "sqlite": "PRAGMA query_only = on"} {
		t.Run(name, func(t *testing.T) {
			db := sqltest.DB(t, databases[name].server)
			d := open[session](t, db, databases[name].dialect, nil)
			was := d.mustInsert(t, "k", session{"ann"}, lasting(time.Minute))
			db.SetMaxOpenConns(1)
			mustExec(t, db, databases[name].dialect, setting)
			access := driver.Access{At: base, Keep: 3600e3, Stored: 3600e3, Most: 7200e3, Step: time.Millisecond}
			e, touched, err := d.ReadTouch(t.Context(), "k", nil, access, base)
			if err != nil || touched || e.Meta != was {
				t.Errorf("%+v, %v, %v; want it as it was", e, touched, err)
			}
		})
	}
}

// TestTouchLeavesSweepAt: only a write that moves an expiry before sweep_at may write sweep_at.
func TestTouchLeavesSweepAt(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		d := open[session](t, db, dialect, nil)
		sweep := func() (at int64) {
			if err := db.QueryRowContext(ctx, "SELECT sweep_at FROM "+d.quoted()).Scan(&at); err != nil {
				t.Fatal(err)
			}
			return at
		}
		was := d.mustInsert(t, "k", session{}, lasting(time.Hour))
		for _, step := range []struct {
			to   driver.Life
			want driver.Life
		}{
			{lasting(2 * time.Hour), lasting(time.Hour)},
			{lasting(90 * time.Minute), lasting(time.Hour)},
			{lasting(time.Minute), lasting(time.Minute)},
			{lasting(time.Hour), lasting(time.Minute)},
		} {
			if _, err := d.Touch(ctx, "k", was, step.to, base); err != nil {
				t.Fatal(err)
			}
			was.Life = step.to
			if got := sweep(); got != int64(step.want.ExpiresAt) {
				t.Errorf("touched to %v: sweep_at is %v past the start, want %v", step.to.ExpiresAt.Sub(base), driver.Instant(got).Sub(base), step.want.ExpiresAt.Sub(base))
			}
		}
	})
}

func TestScan(t *testing.T) {
	keyed := Options[session]{Key: Key{
		Columns: []string{"shop", "number"},
		Split: func(key string) ([]any, error) {
			shop, number, _ := strings.Cut(key, "/")
			n, err := strconv.ParseInt(number, 10, 64)
			return []any{shop, n}, err
		},
		Join: func(c []string) string { return c[0] + "/" + c[1] },
	}}
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		kind := "TEXT"
		if dialect == MySQL {
			kind = "VARBINARY(20)"
		}
		mustExec(t, db, dialect, "CREATE TABLE keyed (shop "+kind+" NOT NULL, number BIGINT NOT NULL, value TEXT, PRIMARY KEY (shop, number))")
		k, err := New(db, dialect, "keyed", &keyed)
		if err == nil {
			err = k.EnsureTable(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []*Driver[session]{open[session](t, db, dialect, nil), k} {
			want := make(map[string]driver.Meta)
			for i := range 50 {
				key := fmt.Sprintf("%c/%d", 'a'+i%3, int64(1)<<53+int64(i))
				want[key] = d.mustInsert(t, key, session{"ann"}, lasting(time.Duration(i+1)*time.Minute))
			}
			cursors, err := d.Segments(t.Context(), 4)
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]driver.Meta)
			for _, from := range cursors {
				for from != "" {
					page, err := d.Scan(t.Context(), from, 7)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range page.Records {
						if r.Size < len(`{"user":"ann"}`) || r.Problem != nil {
							t.Errorf("size %d, problem %v", r.Size, r.Problem)
						}
						if _, twice := got[r.Key]; twice {
							t.Error("a record came twice")
						}
						got[r.Key] = r.Meta
					}
					from = page.Next
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("scanned %v, want %v", got, want)
			}
			if _, err := d.Scan(t.Context(), "?", 1); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("a cursor of another: %v", err)
			}
			keys := slices.Sorted(maps.Keys(want))
			many, err := d.GetMulti(t.Context(), append(keys, "a/1", ""))
			var failed driver.KeyErrors
			if len(many) != 50 || !errors.As(err, &failed) || len(failed) != 1 || failed[0].Index != 51 {
				t.Errorf("GetMulti: %d records, %v", len(many), err)
			}
		}
	})
}

func TestRaw(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d := open[session](t, db, dialect, nil)
		was := d.mustInsert(t, "k", session{"ann"}, lasting(time.Hour))
		raw, err := d.Raw(t.Context(), "k")
		if err != nil || raw.Meta != was || raw.Format != "json" || strings.ReplaceAll(string(raw.Value), " ", "") != `{"user":"ann"}` ||
			raw.Fields["created_at"] != fmt.Sprint(int64(base)) || raw.Problem != nil {
			t.Errorf("%+v (%s), %v", raw, raw.Value, err)
		}
		if _, err := d.Raw(t.Context(), "none"); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("of an absent key: %v", err)
		}
	})
}

// TestOddRows: a row that cannot be read is an error that names the column, without a guess.
func TestOddRows(t *testing.T) {
	db := sqltest.DB(t, sqltest.SQLite) // its columns hold values of any type
	d := open[session](t, db, SQLite, nil)
	insert := "INSERT INTO " + d.quoted() + " (id, value, created_at) VALUES (?, ?, ?)"
	mustExec(t, db, SQLite, insert, "life", `{}`, "yesterday")
	mustExec(t, db, SQLite, insert, "value", `{"user": 7}`, 1)
	for key, names := range map[string]string{"life": `"created_at"`, "value": `"user"`} {
		_, err := d.Get(t.Context(), key)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), names) || strings.Contains(err.Error(), "yesterday") {
			t.Errorf("%s: %v", key, err)
		}
	}
	page, err := d.Scan(t.Context(), driver.EncodeCursor(span{}), 10)
	if err != nil || len(page.Records) != 2 || page.Records[0].Problem == nil || page.Records[1].Problem != nil {
		t.Errorf("Scan: %+v, %v", page, err)
	}
	if raw, err := d.Raw(t.Context(), "life"); err != nil || raw.Problem == nil || raw.Fields["created_at"] != "yesterday" {
		t.Errorf("Raw: %+v, %v", raw, err)
	}
}

// TestFarCreated: a row that was created later than the driver can write is read, and written as others are.
func TestFarCreated(t *testing.T) {
	db := sqltest.DB(t, sqltest.PostgreSQL)
	for _, kind := range []TimeType{Timestamp, DateTime} {
		d := open(t, db, PostgreSQL, &Options[session]{CreatedAt: TimeColumn{Type: kind}})
		for _, at := range []string{"infinity", "294276-12-31"} {
			mustExec(t, db, PostgreSQL, "INSERT INTO "+d.quoted()+" (id, value, created_at, version) VALUES ('"+at+"', '{}', '"+at+"', 1)")
			e, err := d.Get(t.Context(), at)
			if err == nil {
				_, err = d.Replace(t.Context(), at, session{"ann"}, e.Meta, e.Life, base)
			}
			var is string
			if err == nil {
				err = db.QueryRowContext(t.Context(), "SELECT created_at::text FROM "+d.quoted()+" WHERE id = $1 AND value->>'user' = 'ann'", at).Scan(&is)
			}
			if err != nil || !strings.HasPrefix(is, at) {
				t.Errorf("type %d, created at %s: %q, %v", kind, at, is, err)
			}
		}
	}
}

// TestCheckEncoding: Check refuses a database whose encoding takes two characters for one.
func TestCheckEncoding(t *testing.T) {
	client, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	admin, err := stdsql.Open(client, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	schema := dsn[strings.LastIndexByte(dsn, '=')+1:]
	mustExec(t, admin, PostgreSQL, "CREATE DATABASE "+schema+" ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	db, err := stdsql.Open(client, dsn[:strings.Index(dsn, " search_path=")]+" client_encoding=UTF8 dbname="+schema)
	if err != nil {
		t.Fatal(err)
	}
	d := open[session](t, db, PostgreSQL, nil)
	if err := d.Check(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "server_encoding") {
		t.Errorf("Check: %v", err)
	}
	_ = db.Close()
	mustExec(t, admin, PostgreSQL, "DROP DATABASE "+schema)
}

// TestLifeOnly slides the rows of a table that other SQL reads and writes.
func TestLifeOnly(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		mustExec(t, db, dialect, "CREATE TABLE links (id VARCHAR(20) NOT NULL PRIMARY KEY, url VARCHAR(100) NOT NULL)")
		mustExec(t, db, dialect, "INSERT INTO links (id, url) VALUES ('a', 'https://go.dev')")
		d, err := New(db, dialect, "links", &Options[string]{LifeOnly: true, Key: Key{Split: func(key string) ([]any, error) { return []any{key}, nil }}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.EnsureTable(ctx); err != nil {
			t.Fatal(err)
		}
		e := d.mustGet(t, "a")
		if e.Value != "" || e.Meta != (driver.Meta{}) {
			t.Errorf("%+v, want nothing", e)
		}
		if _, err := d.Touch(ctx, "a", e.Meta, lasting(time.Hour), base); err != nil {
			t.Fatal(err)
		}
		if e := d.mustGet(t, "a"); e.Life != lasting(time.Hour) {
			t.Errorf("%+v", e)
		}
		var url string
		if err := db.QueryRowContext(ctx, "SELECT url FROM links").Scan(&url); err != nil || url != "https://go.dev" {
			t.Errorf("%q, %v", url, err)
		}
	})
}

func TestCheck(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		text := "TEXT"
		if dialect == MySQL {
			text = "VARCHAR(50)"
		}
		mustExec(t, db, dialect, "CREATE TABLE bad (id "+text+", value "+text+", created_at "+text+", expires_at BIGINT, version "+text+")")
		d, err := New[session](db, dialect, "bad", nil)
		if err != nil {
			t.Fatal(err)
		}
		err = d.Check(t.Context(), time.Hour)
		for _, want := range []string{`"created_at"`, `"sweep_at" is missing`, `"version"`, "not unique", "without an index"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want it to name %s", err, want)
			}
		}
		if dialect == MySQL && !strings.Contains(err.Error(), "for which different keys are equal") {
			t.Errorf("error %v, want it to name the collation", err)
		}
		if strings.Contains(err.Error(), "expires_at") {
			t.Errorf("error %v names what is right", err)
		}
		none, _ := New[session](db, dialect, "none", nil)
		if err := none.Check(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "unknown") {
			t.Errorf("of no table: %v", err)
		}
		good := open[session](t, db, dialect, nil)
		movable(t, good)(time.Hour)
		if err := good.Check(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "behind the server's") {
			t.Errorf("of a clock that is off: %v", err)
		}
	})
}

// TestCheckColumns: a column for which two keys are equal, or that cannot hold a time, is refused
// by name.
func TestCheckColumns(t *testing.T) {
	const icu = "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
	for name, c := range map[string]struct {
		db, before, columns string
		created             TimeType
		want                string // empty: it is good
	}{
		"citext":           {"postgres", "CREATE EXTENSION citext", "id citext PRIMARY KEY, created_at bigint", Millis, `column "id"`},
		"nondeterministic": {"postgres", icu, `id text COLLATE folded PRIMARY KEY, created_at bigint`, Millis, `column "id"`},
		"char":             {"postgres", "", "id char(255) PRIMARY KEY, created_at bigint", Millis, `column "id"`},
		"text":             {"postgres", "", "id text PRIMARY KEY, created_at bigint", Millis, ""},
		"uuid":             {"postgres", "", "id uuid PRIMARY KEY, created_at bigint", Millis, ""},
		"any case":         {"mariadb", "", "id VARCHAR(255) PRIMARY KEY, created_at BIGINT", Millis, "column `id`"},
		"any end":          {"mariadb", "", "id VARCHAR(255) COLLATE utf8mb4_bin PRIMARY KEY, created_at BIGINT", Millis, "column `id`"},
		"exact":            {"mariadb", "", "id VARCHAR(255) COLLATE utf8mb4_nopad_bin PRIMARY KEY, created_at BIGINT", Millis, ""},
		"on update":        {"mariadb", "", "id VARBINARY(255) PRIMARY KEY, created_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)", Timestamp, "ON UPDATE"},
		"datetime":         {"mariadb", "", "id VARBINARY(255) PRIMARY KEY, created_at DATETIME", DateTime, "MODIFY `created_at` DATETIME(3)"},
		"timestamp":        {"mariadb", "", "id VARBINARY(255) PRIMARY KEY, created_at TIMESTAMP", Timestamp, "MODIFY `created_at` TIMESTAMP(3)"},
		"nocase":           {"sqlite", "", "id TEXT COLLATE NOCASE PRIMARY KEY, created_at INTEGER", Millis, `column "id"`},
		"rtrim":            {"sqlite", "", "id TEXT COLLATE RTRIM PRIMARY KEY, created_at INTEGER", Millis, `column "id"`},
		"binary":           {"sqlite", "", "id TEXT PRIMARY KEY, created_at INTEGER", Millis, ""},
	} {
		t.Run(name, func(t *testing.T) {
			of := databases[c.db]
			db := sqltest.DB(t, of.server)
			if c.before != "" {
				mustExec(t, db, of.dialect, c.before)
			}
			mustExec(t, db, of.dialect, "CREATE TABLE checked ("+c.columns+", value VARCHAR(2000))")
			d, err := New(db, of.dialect, "checked", &Options[session]{CreatedAt: TimeColumn{Type: c.created}})
			if err != nil {
				t.Fatal(err)
			}
			_ = d.EnsureTable(t.Context()) // it returns the same error
			err = d.Check(t.Context(), time.Hour)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check: %v; want it to name %q", err, c.want)
			}
		})
	}
}

// TestCheckTimeZone: a TIMESTAMP is written in the session's zone, in which an hour occurs twice in
// autumn.
func TestCheckTimeZone(t *testing.T) {
	db := sqltest.DB(t, sqltest.MariaDB)
	d := open(t, db, MySQL, &Options[session]{CreatedAt: TimeColumn{Type: Timestamp}})
	for _, statement := range []string{
		"REPLACE INTO mysql.time_zone (Time_zone_id) VALUES (4711)",
		"REPLACE INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('Summer', 4711)",
		"REPLACE INTO mysql.time_zone_transition_type VALUES (4711, 0, 0, 0, 'W'), (4711, 1, 3600, 1, 'S')",
		fmt.Sprintf("REPLACE INTO mysql.time_zone_transition VALUES (4711, %d, 1), (4711, %d, 0)",
			time.Now().AddDate(0, 3, 0).Unix(), time.Now().AddDate(0, 9, 0).Unix()),
	} {
		mustExec(t, db, MySQL, statement)
	}
	db.SetMaxOpenConns(1)
	if err := d.Check(t.Context(), time.Hour); err != nil {
		t.Errorf("as it is by default: %v", err)
	}
	mustExec(t, db, MySQL, "SET time_zone = 'Summer'")
	if err := d.Check(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "one offset all year") {
		t.Errorf("error %v, want it to name the zone", err)
	}
	mustExec(t, db, MySQL, "SET time_zone = '+05:30'")
	if err := d.Check(t.Context(), time.Hour); err != nil {
		t.Errorf("in a zone of one offset: %v", err)
	}
}

func TestCheckSettings(t *testing.T) {
	for name, c := range map[string]struct{ db, setting, want string }{
		"postgres read-only": {"postgres", "SET default_transaction_read_only = on", "read-only"},
		"isolation":          {"mariadb", "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", "READ COMMITTED"},
		"autocommit":         {"mariadb", "SET autocommit = 0", "autocommit"},
		"time zone":          {"mariadb", "SET time_zone = '+02:00'", "time_zone"},
		"cut keys":           {"mariadb", "SET sql_mode = ''", "STRICT_TRANS_TABLES"},
		"no WAL":             {"sqlite", "PRAGMA journal_mode = delete", "journal_mode"},
		"no patience":        {"sqlite", "PRAGMA busy_timeout = 0", "busy_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			db := sqltest.DB(t, databases[c.db].server)
			d := open(t, db, databases[c.db].dialect, &Options[session]{CreatedAt: TimeColumn{Type: DateTime}})
			db.SetMaxOpenConns(2)
			if c.db == "postgres" { // by two Check sees a pooler
				db.SetMaxOpenConns(3)
			}
			used, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Check(t.Context(), time.Hour); err != nil || db.Stats().WaitCount > 0 {
				t.Errorf("as it is by default: %v, after %d waits for a connection", err, db.Stats().WaitCount)
			}
			_ = used.Close()
			db.SetMaxOpenConns(1)
			mustExec(t, db, databases[c.db].dialect, c.setting)
			if err := d.Check(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want it to name %s", err, c.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	db := new(stdsql.DB)
	for field, try := range map[string]func() error{
		"db":      func() error { _, err := New[session](nil, SQLite, "t", nil); return err },
		"dialect": func() error { _, err := New[session](db, 0, "t", nil); return err },
		"table":   func() error { _, err := New[session](db, SQLite, `a"b`, nil); return err },
		"Options.Row": func() error {
			_, err := New(db, SQLite, "t", &Options[session]{Row: Row[session]{Columns: []string{"a"}}})
			return err
		},
		"Options.Row.Fields": func() error {
			_, err := New(db, SQLite, "t", &Options[session]{Row: Row[session]{Columns: []string{"a", "b"}, Fields: func(s *session) []any { return []any{&s.User} }}})
			return err
		},
		"Options.LifeOnly": func() error {
			_, err := New(db, SQLite, "t", &Options[session]{LifeOnly: true, Value: "v"})
			return err
		},
		"Options.Key.Split": func() error {
			_, err := New(db, SQLite, "t", &Options[session]{Key: Key{Columns: []string{"a", "b"}}})
			return err
		},
		"Options.SweepAt": func() error { _, err := New(db, SQLite, "t", &Options[session]{SweepAt: "Created_At"}); return err },
		"Options.CreatedAt.Type": func() error {
			_, err := New(db, SQLite, "t", &Options[session]{CreatedAt: TimeColumn{Type: 9}})
			return err
		},
		"T":               func() error { _, err := New[map[string]big.Int](db, SQLite, "t", nil); return err },
		"Options.MaxKey":  func() error { _, err := New(db, SQLite, "t", &Options[session]{MaxKey: -1}); return err },
		"Options.MaxSkew": func() error { _, err := New(db, SQLite, "t", &Options[session]{MaxSkew: -1}); return err },
	} {
		var invalid *driver.InvalidError
		if err := try(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

// TestErrorsAreSilent: errors contain no keys, although the databases' own texts do.
func TestErrorsAreSilent(t *testing.T) {
	const secret = "4d1f-secret"
	db := sqltest.DB(t, sqltest.PostgreSQL)
	mustExec(t, db, PostgreSQL, "CREATE TABLE uuids (id uuid PRIMARY KEY, value jsonb)")
	d, err := New[session](db, PostgreSQL, "uuids", nil)
	if err == nil {
		err = d.EnsureTable(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	_, get := d.Get(t.Context(), secret)
	_, insert := d.Insert(t.Context(), secret, session{}, lasting(time.Hour), base)
	for what, err := range map[string]error{"Get": get, "Insert": insert, "Delete": d.Delete(t.Context(), secret)} {
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestUpsertStatements: an Upsert over a record that the store has not seen is one statement, and
// three on MySQL, as the README says.
func TestUpsertStatements(t *testing.T) {
	for name, want := range map[string]int{"postgres": 1, "mariadb": 3} {
		t.Run(name, func(t *testing.T) {
			s, w := servers[name], new(wire)
			d := open[session](t, w.pool(t, s.server), s.dialect, nil)
			policy := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}
			upsert := func() {
				store, err := slidingttl.New(d, policy, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := store.Upsert(t.Context(), "k", session{"ann"}); err != nil {
					t.Error(err)
				}
				if err := store.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			upsert()
			n := 0
			w.set(func() cut { n++; return whole })
			upsert()
			w.set(nil)
			if n != want {
				t.Errorf("%d statements; want %d", n, want)
			}
		})
	}
}
