package sql

import (
	"bytes"
	"cmp"
	"context"
	stdsql "database/sql"
	sqldriver "database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// configuration is a value for each dimension of a dialect.
type configuration map[string]string

// dimension is a choice that an application makes. Sound values must pass Check in any
// combination. Check may refuse a suspect value by name; where it does not, the contract holds.
type dimension struct {
	name           string
	sound, suspect []string
}

var values = dimension{"T", []string{"struct", "string", "number", "any", "columns", "wide", "life only"}, nil}

var dimensions = map[string][]dimension{
	"postgres": {
		{"access", []string{"direct", "exec", "describe_exec direct", "bounced cache_describe", "bounced exec", "bounced simple_protocol", "bounced by session", "one connection", "bounced exec, one connection", "client_encoding=UNICODE", "client_encoding=SQL_ASCII", "standard_conforming_strings=off"}, []string{"client_encoding=latin1", "client_encoding=sjis", "default_query_exec_mode=exec datestyle=German", "default_query_exec_mode=simple_protocol extra_float_digits=0", "default_query_exec_mode=exec intervalstyle=iso_8601", "default_query_exec_mode=simple_protocol standard_conforming_strings=off", "default_query_exec_mode=exec bytea_output=escape", "bounced describe_exec", "bounced", "bounced describe_exec, one connection", "bounced , one connection", "bounced exec by statement", "bounced by statement"}},
		{"key", []string{`text COLLATE "C"`, "text", "varchar(300)", `varchar(60) COLLATE "C"`}, []string{"uuid", "citext", "bytea", "text COLLATE folded", "char(60)", "varchar", "name", "bigint", "numeric", "numeric(9,2)", "json", "inet", "macaddr", "boolean", "date", "timestamptz", "interval", "oid", "money", "varbit", "text[]", "pg_lsn", "int4range", "session_id", "session_letters"}},
		{"layout", []string{"id", "tenant number and id", "tenant digits and id"}, []string{"tenant text and id"}},
		{"created", []string{"bigint", "timestamptz", "timestamp", "timestamptz(3)", "timestamp DEFAULT (now() AT TIME ZONE 'UTC') in America/New_York"}, []string{"timestamp DEFAULT now() in America/New_York", "timestamp DEFAULT (now() AT TIME ZONE 'America/New_York')", "local_time as timestamp in America/New_York", "timestamptz(0)", "integer", "date", "timestamp as timestamptz"}},
		{"expires", []string{"bigint", "timestamptz", "timestamp", "timestamptz for 250 years", "timestamp for 250 years"}, []string{"timestamp(2)"}},
		{"value", []string{"jsonb", "json", "text"}, []string{"bytea", "varchar(2)", "name", "jsonpath"}},
		values,
		{"isolation", []string{"read committed", "repeatable read", "serializable"}, nil},
		{"rights", []string{"owner", "granted", "columns"}, []string{"SELECT", "SELECT, INSERT", "SELECT, INSERT, UPDATE", "row security"}},
		{"kind", []string{"plain", "hash partitions", "no fillfactor", "key that may be null", "sweep_at that may be null by default 0"}, []string{"sweep_at that may be null", "folded key besides", "deferrable key besides", "range partitions", "unlogged", "deferrable key", "key on lower(id)", "partial key", "key including value", "no sweep index", "invalid sweep index", "view", "rule on delete", "child table"}},
		{"extra", []string{"none", "unique owner", "unique with version", "unique with created_at", "unique with created_at beside a trigger", "demanded by default 0"}, []string{"demanded", "unique with expires_at", "unique with sweep_at", "unique with a copy of expires_at"}},
		{"made", []string{"whole", "by Schema", "by Schema after a cancelled index"}, nil},
		{"keeps", []string{"nothing", "replaced", "replaced and deleted", "replaced and deleted, after an older release"}, []string{"by a disabled trigger", "by another table's trigger", "by an older release's trigger"}},
		{"guards", []string{"none", "error", "state", "table"}, nil},
		{"owner", []string{"text", "varchar(200)", "citext"}, []string{"char(7)", "varchar(12)", "integer", "numeric", "numeric(9,2)", "uuid", "date", "timestamptz", "name", "inet", "double precision", "json"}},
	},
	"mariadb": {
		{"access", []string{"direct", "interpolateParams=true", "clientFoundRows=true", "parseTime=true&loc=Local", "collation=utf8mb4_bin", "collation_connection=utf8mb4_unicode_nopad_ci", "div_precision_increment=0", "innodb_snapshot_isolation=ON"}, []string{"sql_mode=''", "sql_mode='STRICT_TRANS_TABLES,EMPTY_STRING_IS_NULL'", "autocommit=0", "time_zone='%2B02:00'", "charset=latin1", "completion_type=CHAIN", "completion_type=2", "character_set_client=latin1", "character_set_connection=latin1", "sql_select_limit=40"}},
		{"key", []string{"VARBINARY(255)", "VARCHAR(255) COLLATE utf8mb4_nopad_bin", "VARBINARY(40)", "VARCHAR(60) COLLATE utf8mb4_nopad_bin"}, []string{"UUID", "BINARY(60)", "VARCHAR(191)", "VARCHAR(191) COLLATE utf8mb4_bin", "CHAR(60) COLLATE utf8mb4_nopad_bin", "VARCHAR(200) CHARACTER SET latin1 COLLATE latin1_nopad_bin", "BIGINT", "BIGINT ZEROFILL", "INET4", "INET6", "BIT(40)", "DATE"}},
		{"layout", []string{"id", "tenant number and id", "tenant digits and id"}, []string{"tenant text and id", "counted tenant and id"}},
		{"created", []string{"BIGINT", "TIMESTAMP(3) NULL", "DATETIME(3)", "DATETIME(6)"}, []string{"DATETIME", "INT", "BIGINT UNSIGNED", "TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)"}},
		{"expires", []string{"BIGINT", "TIMESTAMP(3) NULL", "DATETIME(3)"}, []string{"DOUBLE", "TIMESTAMP(3) NULL for 15 years", "DATETIME(3) for 15 years"}},
		{"value", []string{"JSON", "LONGTEXT CHARACTER SET utf8mb4", "LONGBLOB", "LONGTEXT CHARACTER SET utf16", "TEXT CHARACTER SET utf32"}, []string{"TEXT CHARACTER SET ucs2", "VARCHAR(2)", "TEXT CHARACTER SET latin1", "DOUBLE", "DECIMAL(60,2)"}},
		values,
		{"isolation", []string{"READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"}, []string{"READ-UNCOMMITTED"}},
		{"rights", []string{"owner", "granted", "columns"}, []string{"SELECT", "SELECT, INSERT, UPDATE"}},
		{"kind", []string{"plain", "key partitions", "compressed", "key that may be null", "sweep_at that may be null by default 0"}, []string{"sweep_at that may be null", "MyISAM", "MEMORY", "Aria", "key of a prefix", "hashed key", "no sweep index", "ignored sweep index", "system versioning", "generated version"}},
		{"extra", []string{"none", "unique owner", "demanded by default 0"}, []string{"demanded"}},
		{"made", []string{"whole", "by Schema"}, nil},
		{"keeps", []string{"nothing", "replaced", "replaced and deleted", "replaced and deleted, after an older release", "replaced and deleted, made where '' is NULL"}, []string{"by another table's trigger", "by an older release's trigger", "by a client of latin1", "in texts of latin1"}},
		{"guards", []string{"none", "error", "number", "table"}, nil},
		{"owner", []string{"VARCHAR(200) CHARACTER SET utf8mb4"}, []string{"CHAR(60) CHARACTER SET utf8mb4", "VARCHAR(12) CHARACTER SET utf8mb4", "INT", "DECIMAL(9)", "DECIMAL(9,2)", "UUID", "BINARY(60)"}},
	},
	"sqlite": {
		{"access", []string{"wal", "wal full", "wal, one connection", "memory, one connection", "wal, immediate", "wal, foreign keys"}, []string{"memory", "shared memory", "delete", "impatient", "exclusive", "shared cache", "utf16"}},
		{"key", []string{"TEXT", "TEXT COLLATE BINARY", "VARCHAR(40)", "BLOB"}, []string{"TEXT COLLATE NOCASE", "TEXT COLLATE RTRIM", "INTEGER", "NUMERIC", "REAL", "STRING"}},
		{"layout", []string{"id", "tenant number and id", "tenant digits and id"}, []string{"tenant text and id"}},
		{"created", []string{"INTEGER", "TEXT", "DATETIME", "TEXT DEFAULT (datetime())"}, []string{"TEXT DEFAULT (datetime('now', 'localtime'))", "REAL", "BLOB"}},
		{"expires", []string{"INTEGER", "BIGINT", "TIMESTAMP"}, []string{"NUMERIC"}},
		{"value", []string{"TEXT", "JSON", "BLOB"}, []string{"INTEGER", "DOUBLE", "STRING", "DATE"}},
		values,
		{"isolation", []string{"default"}, nil},
		{"rights", []string{"owner"}, []string{"query_only"}},
		{"kind", []string{"plain", "without rowid", "strict", "key that may be null", "sweep_at that may be null by default 0"}, []string{"sweep_at that may be null", "strict value BLOB", "strict value INT", "strict key BLOB", "key nocase", "partial key", "no sweep index", "view"}},
		{"extra", []string{"none", "unique owner", "unique owner, by rollback", "demanded by default 0"}, []string{"demanded"}},
		{"made", []string{"whole", "by Schema"}, nil},
		{"keeps", []string{"nothing", "replaced", "replaced and deleted", "replaced and deleted, after an older release"}, []string{"by another table's trigger", "by an older release's trigger"}},
		{"guards", []string{"none", "ABORT", "ROLLBACK", "FAIL", "reference", "table"}, nil},
	},
}

// possible reports whether the values of c go together.
func possible(db string, c configuration) bool {
	bounced := strings.HasPrefix(c["access"], "bounced")
	switch {
	case c["made"] != "" && c["made"] != "whole" && c.suspect(db) != "": // Schema's columns are sound
		return false
	case c["guards"] == "reference" && c["access"] != "wal, foreign keys":
		return false
	case bounced && (c["isolation"] != "read committed" || c["rights"] != "owner"): // pgbouncer logs in as one user
		return false
	case c["keeps"] != "" && c["keeps"] != "nothing" && (c["made"] != "" && c["made"] != "whole" || c.suspect(db) != "" && !strings.HasPrefix(c.suspect(db), "keeps=") && !strings.HasPrefix(c.suspect(db), "key=") && !strings.HasPrefix(c.suspect(db), "value=")):
		return false
	case c["rights"] == "columns" && (c["T"] != "life only" || c["made"] != "whole"):
		return false
	case c["extra"] == "demanded" && c["T"] == "life only", c["made"] != "" && c["made"] != "whole" && strings.HasPrefix(c["kind"], "sweep_at that may"): // the application's own statement fills it
		return false
	case c["kind"] == "key that may be null" && strings.HasPrefix(c.suspect(db), "key="): // NULL would stand for what it cannot hold
		return false
	case strings.HasPrefix(c.suspect(db), "owner=") && (c["T"] != "columns" || strings.HasPrefix(c["extra"], "unique owner")):
		return false
	case strings.HasPrefix(c["extra"], "unique owner") && (c["T"] != "columns" || strings.HasSuffix(c["kind"], "partitions")):
		return false
	case (c["kind"] == "view" || c["kind"] == "system versioning") && strings.HasPrefix(c["extra"], "unique owner"), db == "mariadb" && c["kind"] == "MyISAM" && strings.HasPrefix(c["key"], "VARCHAR"):
		return false
	case strings.HasPrefix(c["kind"], "strict value ") && c["T"] == "life only": // where the application's own value is a text
		return false
	case db == "sqlite" && strings.HasPrefix(c["kind"], "strict"):
		for _, name := range []string{"key", "created", "expires", "value"} {
			if c[name] != "" && !slices.Contains([]string{"TEXT", "INTEGER"}, c[name]) {
				return false
			}
		}
	case db == "postgres" && (c["key"] == "money" || c["key"] == "varbit") && c["kind"] == "hash partitions": // they have no hash
		return false
	case strings.HasPrefix(c["extra"], "unique with ") && (c["kind"] == "view" || c["kind"] == "range partitions"):
		return false
	case db == "postgres" && c["key"] == "json":
		return c["layout"] == "id" && false // it has no index
	case db == "mariadb" && (c["kind"] == "MEMORY" || c["kind"] == "compressed" || c["kind"] == "Aria"):
		return c["T"] != "wide" && (c["kind"] != "MEMORY" || c["T"] == "life only") // it has no long texts, or rows
	}
	return true
}

// configurations returns combinations of the sound values that have each pair of these, and
// before these combinations of the others' sound values with each suspect value, suspects times
// over. Zero suspects: with the first of each dimension.
func configurations(db string, random *rand.Rand, suspects int) []configuration {
	all := dimensions[db]
	type pair [4]string
	pairs := make(map[pair]bool)
	each := func(c configuration, f func(pair)) {
		for i, a := range all {
			for _, b := range all[i+1:] {
				f(pair{a.name, c[a.name], b.name, c[b.name]})
			}
		}
	}
	draw := func(fixed configuration) configuration {
		for {
			c := make(configuration)
			maps.Copy(c, fixed)
			for _, d := range all {
				if c[d.name] == "" {
					c[d.name] = d.sound[random.IntN(len(d.sound))]
				}
			}
			if possible(db, c) {
				return c
			}
		}
	}
	var found []configuration
	for range max(1, suspects) {
		for _, d := range all {
			for i, v := range d.suspect {
				if suspects == 0 && i > 0 {
					break
				}
				if try := (configuration{d.name: v}); possible(db, configuration{d.name: v, "isolation": "read committed", "rights": "owner", "T": "columns"}) {
					found = append(found, draw(try))
				}
			}
		}
	}
	for misses := 0; misses < 20; {
		var best configuration
		most := 0
		for range 60 {
			c, n := draw(nil), 0
			each(c, func(p pair) {
				if !pairs[p] {
					n++
				}
			})
			if n > most {
				best, most = c, n
			}
		}
		if most == 0 {
			misses++
			continue
		}
		each(best, func(p pair) { pairs[p] = true })
		found = append(found, best)
	}
	return found
}

// place is where a configuration's table stands.
type place struct {
	admin  *stdsql.DB // has all rights
	db     *stdsql.DB // the application's
	table  string
	user   string            // a user with rights of its own; empty: the owner of the table
	again  func() *stdsql.DB // another process's; nil: there is none
	create func(ctx context.Context, statement string) error
}

// yard opens places on one server.
type yard struct {
	name    string
	dsn     string // of a schema
	admin   *stdsql.DB
	bouncer string
	made    int
}

func newYard(t *testing.T, name string) *yard {
	y := &yard{name: name}
	if name == "sqlite" {
		return y
	}
	var driverName string
	driverName, y.dsn = sqltest.DSN(t, databases[name].server)
	var err error
	if y.admin, err = stdsql.Open(driverName, y.dsn); err != nil {
		t.Fatal(err)
	}
	y.admin.SetMaxIdleConns(4)
	t.Cleanup(func() { _ = y.admin.Close() })
	if name == "postgres" {
		for _, s := range []string{
			"CREATE EXTENSION citext",
			"CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
			`CREATE DOMAIN session_id AS varchar(60) COLLATE "C"`,
			"CREATE DOMAIN session_letters AS text COLLATE folded",
			"CREATE DOMAIN local_time AS timestamp DEFAULT now()",
		} {
			mustExec(t, y.admin, PostgreSQL, s)
		}
		y.bouncer = bouncer(t, y.dsn)
	}
	return y
}

// open makes the place of c: a user and a connection. The table is yet to be made.
func (y *yard) open(t *testing.T, c configuration) *place {
	y.made++
	p := &place{admin: y.admin, table: fmt.Sprintf("c%d", y.made)}
	openDB := func(name, dsn string) *stdsql.DB {
		db, err := stdsql.Open(name, dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		db.SetMaxIdleConns(8)
		return db
	}
	user := fmt.Sprintf("u%d_%d", os.Getpid(), y.made)
	if y.name != "sqlite" && c["rights"] != "owner" {
		p.user = user
	}
	switch y.name {
	case "postgres":
		access, bounced := strings.CutPrefix(c["access"], "bounced")
		access, alone := strings.CutSuffix(access, "one connection")
		access = strings.Trim(access, " ,")
		dsn := y.dsn
		switch {
		case bounced:
			dsn = y.bouncer
			for _, by := range []string{"session", "statement"} {
				if mode, ok := strings.CutSuffix(access, "by "+by); ok {
					dsn, access = strings.Replace(dsn, "dbname=test", "dbname="+by+"s", 1), strings.TrimSpace(mode)
				}
			}
		default:
			dsn += " default_transaction_isolation='" + c["isolation"] + "'"
			if c["rights"] != "owner" {
				mustExec(t, y.admin, PostgreSQL, "CREATE ROLE "+user+" LOGIN")
				t.Cleanup(func() {
					for _, s := range []string{"DROP OWNED BY " + user, "DROP ROLE " + user} {
						if _, err := y.admin.ExecContext(context.Background(), s); err != nil {
							t.Error(err)
						}
					}
				})
				dsn = strings.Replace(dsn, "user=postgres", "user="+user, 1)
			}
		}
		switch mode := strings.TrimSuffix(access, " direct"); {
		case strings.Contains(mode, "="):
			dsn += " " + mode
		case mode != "direct" && mode != "":
			dsn += " default_query_exec_mode=" + mode
		}
		if _, zone, ok := strings.Cut(c["created"], " in "); ok {
			dsn += " timezone=" + zone
		}
		p.again = func() *stdsql.DB {
			db := openDB("pgx", dsn)
			if alone {
				db.SetMaxOpenConns(1)
			}
			return db
		}
		p.db = p.again()
	case "mariadb":
		dsn := y.dsn + "?tx_isolation='" + c["isolation"] + "'"
		if c["access"] != "direct" {
			dsn += "&" + c["access"]
		}
		if c["rights"] != "owner" {
			mustExec(t, y.admin, MySQL, "CREATE USER "+user)
			t.Cleanup(func() { _, _ = y.admin.ExecContext(context.Background(), "DROP USER "+user) })
			dsn = strings.Replace(dsn, "root@", user+"@", 1)
		}
		p.db = openDB("mysql", dsn)
	case "sqlite":
		file := filepath.Join(t.TempDir(), "test.db")
		dsn := map[string]string{
			"wal full":               "file:" + file + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)",
			"wal, immediate":         sqltest.SQLiteDSN(file) + "&_txlock=immediate",
			"wal, foreign keys":      sqltest.SQLiteDSN(file) + "&_pragma=foreign_keys(1)",
			"memory":                 ":memory:",
			"memory, one connection": ":memory:",
			"shared memory":          "file:shared" + user + "?mode=memory&cache=shared",
			"delete":                 "file:" + file + "?_pragma=busy_timeout(10000)",
			"impatient":              "file:" + file + "?_pragma=journal_mode(wal)",
			"shared cache":           sqltest.SQLiteDSN(file) + "&cache=shared",
			"exclusive":              sqltest.SQLiteDSN(file) + "&_pragma=locking_mode(exclusive)",
			"utf16":                  "file:" + file + "?_pragma=encoding(%22UTF-16%22)&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)",
		}[c["access"]]
		if c["rights"] == "query_only" {
			dsn = sqltest.SQLiteDSN(file)
			p.admin = openDB("sqlite", dsn)
			dsn += "&_pragma=query_only(1)"
		}
		p.db = openDB("sqlite", cmp.Or(dsn, sqltest.SQLiteDSN(file)))
		if strings.HasSuffix(c["access"], "one connection") {
			p.db.SetMaxOpenConns(1)
		}
		if p.admin == nil {
			p.admin = p.db
		}
	}
	p.create = func(ctx context.Context, statement string) error {
		_, err := p.admin.ExecContext(ctx, statement)
		return err
	}
	if p.user != "" {
		p.create = func(ctx context.Context, statement string) error {
			_, err := y.admin.ExecContext(ctx, statement)
			if err != nil || !strings.HasPrefix(statement, "CREATE TABLE "+p.table+" ") {
				return err
			}
			rights := c["rights"]
			if rights == "granted" || rights == "row security" {
				rights = "SELECT, INSERT, UPDATE, DELETE"
			}
			if rights == "columns" {
				own := "id, created_at, expires_at, sweep_at, version"
				if c["layout"] != "id" {
					own = "tenant, " + own
				}
				rights = fmt.Sprintf("SELECT (%s), UPDATE (%[1]s), INSERT (%[1]s, value), DELETE", own)
			}
			grants := []string{"GRANT " + rights + " ON " + p.table + " TO " + user}
			if y.name == "postgres" {
				grants = append(grants, "GRANT USAGE ON SCHEMA "+y.schema()+" TO "+user)
			}
			if c["rights"] == "row security" {
				grants = append(grants, "ALTER TABLE "+p.table+" ENABLE ROW LEVEL SECURITY", "CREATE POLICY half ON "+p.table+" USING (version % 2 = 0) WITH CHECK (true)")
			}
			for _, s := range grants {
				if _, err := y.admin.ExecContext(ctx, s); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return p
}

func (y *yard) schema() string { return y.dsn[strings.LastIndexByte(y.dsn, '=')+1:] }

// tables returns the statements that make c's table, its partitions and indexes.
func (c configuration) tables(db, name string) (statements []string) {
	id, tenant := c["key"], ""
	switch c["layout"] {
	case "tenant number and id", "tenant digits and id":
		tenant = "tenant BIGINT NOT NULL, "
		if db == "sqlite" && strings.HasPrefix(c["kind"], "strict") {
			tenant = "tenant INTEGER NOT NULL, "
		}
	case "counted tenant and id":
		tenant = "tenant BIGINT NOT NULL AUTO_INCREMENT, "
	case "tenant text and id":
		tenant = "tenant " + map[string]string{"postgres": "text COLLATE folded", "mariadb": "VARCHAR(60)", "sqlite": "TEXT COLLATE NOCASE"}[db] + " NOT NULL, "
	}
	value := "value " + c["value"]
	text := map[string]string{"postgres": "text", "mariadb": "VARCHAR(200) CHARACTER SET utf8mb4", "sqlite": "TEXT"}[db]
	integer := "BIGINT"
	if db == "sqlite" {
		integer = "INTEGER"
	}
	switch c["T"] {
	case "columns":
		owner := "owner " + cmp.Or(c["owner"], text)
		if c["value"] == "bytea" || db == "sqlite" {
			owner = "owner " + c["value"]
		}
		if c["extra"] == "unique owner, by rollback" {
			owner += " UNIQUE ON CONFLICT ROLLBACK"
		}
		value = owner + ", n " + integer + ", data " + map[string]string{
			"postgres": "bytea, part double precision, seen timestamptz, pause interval, note text, doc jsonb",
			"mariadb":  "VARBINARY(200), part DOUBLE, note TEXT CHARACTER SET utf8mb4, doc JSON",
			"sqlite":   "BLOB, part REAL",
		}[db]
	case "wide":
		value = ""
		for i := range (wide{}) {
			value += fmt.Sprintf(", c%d %s", i, text)
		}
		value = value[2:]
	case "life only":
		value = "value " + text
	}
	created, _, _ := strings.Cut(c["created"], " as ")
	created, _, _ = strings.Cut(created, " in ")
	expires, _, _ := strings.Cut(c["expires"], " for ")
	columns := tenant + "id " + id + " NOT NULL, " + value
	bare := strings.HasPrefix(c["made"], "by Schema")
	life := ", created_at " + created + ", expires_at " + expires + ", sweep_at " + integer + " NOT NULL DEFAULT 0, version " + integer
	if c["extra"] == "no negative sweep_at" {
		life = strings.Replace(life, "DEFAULT 0", "DEFAULT 0 CHECK (sweep_at >= 0)", 1)
	}
	switch {
	case !bare:
		columns += life
	case c["made"] != "by Schema":
		columns += ", sweep_at bigint NOT NULL DEFAULT 0"
	}
	key := "id"
	if tenant != "" {
		key = "tenant, id"
	}
	primary, after := ", PRIMARY KEY ("+key+")", ""
	var more []string
	index := func(how, of string) { more = append(more, "CREATE "+how+" "+name+"_key ON "+name+" "+of) }
	sweep := "CREATE INDEX " + name + "_sweep ON " + name + " (sweep_at)"
	if db == "postgres" {
		after = " WITH (fillfactor = 80)"
	}
	switch {
	case c["made"] == "by Schema":
		sweep = "SELECT 1"
	case bare:
		index := name + "_sweep_at" // by Schema's name
		more = append(more, "CREATE INDEX "+index+" ON "+name+" (sweep_at)", "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '"+index+"'::regclass")
		sweep = "SELECT 1"
	}
	switch c["kind"] {
	case "no fillfactor":
		after = ""
	case "key that may be null":
		columns, primary = strings.Replace(columns, "id "+id+" NOT NULL", "id "+id, 1), ", UNIQUE ("+key+")"
	case "sweep_at that may be null", "sweep_at that may be null by default 0":
		_, of, _ := strings.Cut(c["kind"], " by ")
		columns = strings.Replace(columns, "NOT NULL DEFAULT 0", of, 1)
	case "hash partitions":
		after = " PARTITION BY HASH (" + key + ")"
		for i := range 3 {
			more = append(more, fmt.Sprintf("CREATE TABLE %s_%d PARTITION OF %s FOR VALUES WITH (MODULUS 3, REMAINDER %d)", name, i, name, i))
		}
	case "range partitions":
		primary, after = ", PRIMARY KEY ("+key+", sweep_at)", " PARTITION BY RANGE (sweep_at)"
		more = append(more, "CREATE TABLE "+name+"_rest PARTITION OF "+name+" DEFAULT")
	case "unlogged":
		more = append(more, "ALTER TABLE "+name+" SET UNLOGGED")
	case "deferrable key":
		primary += " DEFERRABLE INITIALLY DEFERRED"
	case "key on lower(id)":
		primary = ""
		index("UNIQUE INDEX", "(lower(id::text), "+key+")")
	case "partial key":
		primary = ""
		index("UNIQUE INDEX", "("+key+") WHERE version IS NOT NULL")
	case "folded key besides":
		index("UNIQUE INDEX", "("+strings.Replace(key, "id", "id COLLATE folded", 1)+")")
	case "deferrable key besides":
		more = append(more, "ALTER TABLE "+name+" ADD UNIQUE ("+key+") DEFERRABLE")
	case "key including value":
		primary = ""
		index("UNIQUE INDEX", "("+key+") INCLUDE (version)")
	case "no sweep index":
		sweep = "SELECT 1"
	case "invalid sweep index":
		more = append(more, sweep, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '"+name+"_sweep'::regclass")
		sweep = "SELECT 1"
	case "view":
		more = append(more, sweep, "ALTER TABLE "+name+" RENAME TO "+name+"_base", "CREATE VIEW "+name+" AS SELECT * FROM "+name+"_base")
		sweep = "SELECT 1"
	case "rule on delete":
		more = append(more, "CREATE RULE soft AS ON DELETE TO "+name+" DO INSTEAD UPDATE "+name+" SET version = 0 WHERE id = OLD.id")
	case "child table":
		more = append(more, "CREATE TABLE "+name+"_child () INHERITS ("+name+")", "ALTER TABLE "+name+"_child ADD PRIMARY KEY ("+key+")")
	case "key partitions":
		after = " PARTITION BY KEY () PARTITIONS 3"
	case "compressed":
		after = " ROW_FORMAT=COMPRESSED"
	case "MyISAM", "MEMORY", "Aria":
		after = " ENGINE=" + c["kind"]
	case "hashed key":
		primary = ", UNIQUE KEY (" + key + ")"
		columns = strings.Replace(columns, "id "+id, "id VARCHAR(2000) COLLATE utf8mb4_nopad_bin", 1)
	case "key of a prefix":
		primary = ", UNIQUE KEY (" + strings.Replace(key, "id", "id(10)", 1) + ")"
	case "system versioning":
		after = " WITH SYSTEM VERSIONING"
	case "ignored sweep index":
		sweep += " IGNORED"
	case "generated version":
		columns = strings.Replace(columns, "version "+integer, "version "+integer+" GENERATED ALWAYS AS (sweep_at) VIRTUAL", 1)
	case "strict value BLOB", "strict value INT":
		columns = strings.Replace(columns, "value "+c["value"], strings.TrimPrefix(c["kind"], "strict "), 1)
		after = " STRICT"
	case "strict key BLOB":
		columns = strings.Replace(columns, "id "+id, "id BLOB", 1)
		after = " STRICT"
	case "without rowid":
		after = " WITHOUT ROWID"
	case "strict":
		after = " STRICT"
	case "key nocase":
		primary = ""
		index("UNIQUE INDEX", "("+strings.Replace(key, "id", "id COLLATE NOCASE", 1)+")")
	}
	statements = append([]string{"CREATE TABLE " + name + " (" + columns + primary + ")" + after}, append(more, sweep)...)
	if column, ok := strings.CutPrefix(c["extra"], "unique with "); ok && !bare {
		column, triggers := strings.CutSuffix(column, " beside a trigger")
		if column == "a copy of expires_at" {
			column = "expires_copy"
			of := map[TimeType]string{
				Millis:    "bigint GENERATED ALWAYS AS (expires_at / 1)",
				Timestamp: "timestamp GENERATED ALWAYS AS (expires_at AT TIME ZONE 'UTC')",
				DateTime:  "timestamp GENERATED ALWAYS AS (expires_at + interval '1 s')",
			}[timeType(expires)]
			statements = append(statements, "ALTER TABLE "+name+" ADD COLUMN "+column+" "+of+" STORED")
		}
		statements = append(statements, "CREATE UNIQUE INDEX "+name+"_with ON "+name+" ("+key+", "+column+")")
		if triggers { // for which PostgreSQL locks the row by the columns that the statement sets
			statements = append(statements, "CREATE FUNCTION "+name+"_same() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
				"CREATE TRIGGER same BEFORE UPDATE ON "+name+" FOR EACH ROW EXECUTE FUNCTION "+name+"_same()")
		}
	}
	if by, ok := strings.CutPrefix(c["extra"], "demanded"); ok {
		columns := ", demanded INT NOT NULL" + strings.TrimPrefix(by, " by")
		if statements[0] = strings.Replace(statements[0], ", PRIMARY KEY", columns+", PRIMARY KEY", 1); !strings.Contains(statements[0], columns) {
			statements[0] = strings.Replace(statements[0], ", UNIQUE", columns+", UNIQUE", 1)
		}
	}
	if c["extra"] == "unique owner" {
		statements = append(statements, "CREATE UNIQUE INDEX "+name+"_owner ON "+name+" (owner)")
	}
	return statements
}

// timeType is the option that fits a column's type.
func timeType(column string) TimeType {
	_, as, forced := strings.Cut(column, " as ")
	if forced {
		column = as
	}
	column, _, _ = strings.Cut(column, " DEFAULT ")
	switch column = strings.ToLower(column); {
	case strings.HasPrefix(column, "timestamptz"), strings.HasPrefix(column, "timestamp(3) n"):
		return Timestamp
	case strings.HasPrefix(column, "timestamp"), strings.HasPrefix(column, "datetime"), column == "text", column == "date":
		return DateTime
	}
	return Millis
}

// shop is a value in columns.
type shop struct {
	Owner string
	N     int64
	Data  sealed
	Part  float64
	Seen  moment
	Pause pgtype.Interval
	Note  []byte
	Doc   json.RawMessage
}

// fields are those that a database has columns for.
func (s *shop) fields(db string) (columns []string, all []any) {
	columns, all = []string{"owner", "n", "data", "part"}, []any{&s.Owner, &s.N, &s.Data, &s.Part}
	if db != "sqlite" {
		columns, all = append(columns, "note", "doc"), append(all, &s.Note, &s.Doc)
	}
	if db == "postgres" {
		columns, all = append(columns, "seen", "pause"), append(all, &s.Seen, &s.Pause)
	}
	return columns, all
}

// moment is a time in microseconds, whatever the zone that it is read in.
type moment int64

func (m moment) Value() (sqldriver.Value, error) { return time.UnixMicro(int64(m)), nil }

func (m *moment) Scan(src any) error {
	at, ok := src.(time.Time)
	if *m = moment(at.UnixMicro()); !ok {
		return fmt.Errorf("no time: %T", src)
	}
	return nil
}

// wide is a value in more columns than a function of PostgreSQL takes names and values.
type wide [60]string

// sealed is a string that is sent as bytes, as by one that encrypts it.
type sealed string

func (s sealed) Value() (sqldriver.Value, error) { return []byte(s), nil }

func (s *sealed) Scan(src any) error {
	b, ok := src.([]byte)
	if *s = sealed(b); !ok {
		return fmt.Errorf("no bytes: %T", src)
	}
	return nil
}

// options returns c's options.
func options[T any](db string, c configuration) *Options[T] {
	o := &Options[T]{CreatedAt: TimeColumn{Type: timeType(c["created"])}, ExpiresAt: TimeColumn{Type: timeType(c["expires"])}}
	o.Replaced, o.Deletes = c["keeps"] != "nothing", strings.HasPrefix(c["keeps"], "replaced and deleted")
	split := func(number bool) func(string) ([]any, error) {
		return func(key string) ([]any, error) {
			tenant, id, ok := strings.Cut(key, "/")
			switch {
			case !ok:
				return nil, errors.New("no tenant")
			case number:
				var n int64
				if _, err := fmt.Sscan(tenant, &n); err != nil || fmt.Sprint(n) != tenant {
					return nil, errors.New("no number")
				}
				return []any{n, id}, nil
			}
			return []any{tenant, id}, nil
		}
	}
	if c["layout"] != "id" {
		o.Key = Key{Columns: []string{"tenant", "id"}, Split: split(c["layout"] == "tenant number and id" || c["layout"] == "counted tenant and id"), Join: func(c []string) string { return strings.Join(c, "/") }}
	}
	return o
}

func (c configuration) policy() slidingttl.Policy {
	const year = 365 * 24 * time.Hour
	switch _, long, _ := strings.Cut(c["expires"], " for "); long {
	case "15 years":
		return slidingttl.Policy{IdleGrace: 15 * year, MaxLifetime: 20 * year}
	case "250 years": // beyond which floating point tells no microseconds
		return slidingttl.Policy{IdleGrace: 250 * year, MaxLifetime: 260 * year}
	}
	return slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 2 * time.Hour}
}

// judgement is what became of a configuration.
type judgement struct {
	refused error    // what Check said
	faults  []string // what broke although Check passed
}

// try makes c's table, and judges it.
func (y *yard) try(t *testing.T, c configuration) judgement {
	p := y.open(t, c)
	for _, s := range c.tables(y.name, p.table) {
		if err := p.create(t.Context(), s); err != nil {
			return judgement{faults: []string{fmt.Sprintf("no such table can be made: %v: %s", err, s)}}
		}
	}
	switch c["T"] {
	case "string":
		return tryType(t, y, p, c, nil, func(i int) string { return fmt.Sprint("\u00fc\U0001f600 \"\\ ", i) })
	case "number":
		return tryType(t, y, p, c, nil, func(i int) json.Number {
			if y.name == "sqlite" && c["value"] != "TEXT" && c["value"] != "BLOB" { // TestNumbers has what these refuse
				return json.Number(fmt.Sprint(i))
			}
			return json.Number(fmt.Sprint(i, []string{"", ".50", "2345678901234567890", ".12345678901234567890"}[i%4]))
		})
	case "any":
		return tryType(t, y, p, c, nil, func(i int) any { return []any{map[string]any{"n": float64(i), "s": "\u00fc"}, nil, true} })
	case "columns":
		return tryType(t, y, p, c, func(o *Options[shop]) {
			o.Row.Columns, _ = new(shop).fields(y.name)
			o.Row.Fields = func(s *shop) []any { _, all := s.fields(y.name); return all }
		}, func(i int) shop {
			owner := fmt.Sprint("\u00fc\U0001f600 C:\\new", i)
			switch spellings := []string{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd38%04d", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD38%04d"}; { // keys alone writes these: not every column leaves them as they are
			case i >= 20 && i < 25:
				owner = fmt.Sprint("0", i)
			case i >= 25 && i < 30:
				owner = fmt.Sprint("y", i, strings.Repeat(" ", i-25))
			case i >= 30 && i < 40:
				owner = fmt.Sprint(i, []string{"", ".5", ".50", ".500"}[i%4])
			case i >= 40 && i < 45:
				owner = fmt.Sprintf(spellings[i%2], i)
			case i >= 45 && i < 50:
				owner = fmt.Sprint("2020-1-", i-40)
			}
			s := shop{Owner: owner, N: int64(i), Data: sealed([]byte{0, byte(i), '\\', 255}), Part: float64(i) / 3}
			if y.name != "sqlite" {
				s.Note, s.Doc = []byte(owner), json.RawMessage(fmt.Sprintf(`{"n": %d}`, i))
			}
			if y.name == "postgres" {
				s.Seen, s.Pause = moment(1600000000123457+int64(i)*1e9), pgtype.Interval{Microseconds: int64(i) * 1e6, Days: 1, Valid: true}
			}
			return s
		})
	case "wide":
		return tryType(t, y, p, c, func(o *Options[wide]) {
			for i := range (wide{}) {
				o.Row.Columns = append(o.Row.Columns, fmt.Sprint("c", i))
			}
			o.Row.Fields = func(w *wide) (all []any) {
				for i := range w {
					all = append(all, &w[i])
				}
				return all
			}
		}, func(i int) (w wide) {
			for n := range w {
				w[n] = fmt.Sprint("\u00fc", n, i)
			}
			return w
		})
	case "life only":
		return tryType(t, y, p, c, func(o *Options[session]) { o.LifeOnly = true }, func(int) session { return session{} })
	}
	return tryType(t, y, p, c, nil, func(i int) session { return session{fmt.Sprint("\u00fc\U0001f600 C:\\new", i)} })
}

func tryType[T any](t *testing.T, y *yard, p *place, c configuration, set func(*Options[T]), v func(int) T) (j judgement) {
	o := options[T](y.name, c)
	if set != nil {
		set(o)
	}
	d, err := New(p.db, databases[y.name].dialect, p.table, o)
	if err != nil {
		return judgement{faults: []string{err.Error()}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin, err := New(p.admin, databases[y.name].dialect, p.table, o)
	if err != nil {
		return judgement{faults: []string{err.Error()}}
	}
	if c["made"] != "whole" {
		old, err := admin.key.split((&contractOf[T]{c: c}).key("old"))
		if err == nil {
			_, err = p.admin.ExecContext(ctx, admin.dialect.bind("INSERT INTO "+p.table+" ("+strings.Join(admin.keyColumns(), ", ")+") VALUES ("+listed("?", len(old.columns))+")"), old.columns...)
		}
		if err != nil {
			return judgement{faults: []string{fmt.Sprintf("the old row: %v", err)}}
		}
		statements, err := admin.Schema(ctx, "")
		for _, s := range statements {
			if err = p.create(ctx, s); err != nil {
				return judgement{faults: []string{fmt.Sprintf("Schema's %s: %v", s, err)}}
			}
		}
		if left, again := admin.Schema(ctx, ""); err != nil || again != nil || len(left) > 0 {
			return judgement{faults: []string{fmt.Sprintf("after Schema's statements there are others: %q, %v, %v", left, err, again)}}
		}
		sweeper, err := admin.Sweeper(nil)
		if err == nil {
			err = sweeper.Sweep(ctx)
		}
		if n := sweeper.Stats().Filed; err != nil || n > 0 && c["made"] == "by Schema" && y.name != "sqlite" { // its columns are of the whole table
			j.faults = append(j.faults, fmt.Sprintf("the first sweep writes %d old rows, %v", n, err))
		}
		mustExec(t, p.admin, databases[y.name].dialect, "DELETE FROM "+p.table)
	}
	if err := p.keep(ctx, admin.table, c["keeps"]); err != nil {
		return judgement{faults: []string{fmt.Sprintf("keeps: %v", err)}}
	}
	if err := d.Check(ctx, c.policy().Longest()); err != nil {
		if !errors.Is(err, driver.ErrInvalid) && !errors.Is(err, driver.ErrRefused) {
			j.faults = append(j.faults, fmt.Sprintf("Check fails without a name: %v", err))
		}
		j.refused = err
		return j
	}
	k := &contractOf[T]{ctx: ctx, d: d, admin: admin, opts: o, y: y, p: p, c: c, v: v}
	func() {
		defer func() {
			if r := recover(); r != nil && r != errGivenUp {
				panic(r)
			}
		}()
		k.run()
	}()
	return judgement{faults: append(j.faults, k.faults...)}
}

// keep makes the triggers of Options.Replaced and Options.Deletes, and what a suspect value of
// "keeps" says.
func (p *place) keep(ctx context.Context, d *table, how string) error {
	desc, err := d.describe(ctx)
	if err != nil {
		return err
	}
	statements := d.ensureReplaced(desc)
	switch on := " ON " + d.dialect.indexed(desc.schema, d.name) + " "; {
	case len(statements) == 0:
		return nil
	case how == "by a disabled trigger":
		statements = append(statements, "ALTER TABLE "+d.quoted()+" DISABLE TRIGGER "+d.dialect.quote(d.name+replacedSuffix))
	case strings.HasSuffix(how, "made where '' is NULL"):
		statements = append(append([]string{"SET sql_mode = 'STRICT_TRANS_TABLES,EMPTY_STRING_IS_NULL'"}, statements...), "SET sql_mode = DEFAULT")
	case how == "by a client of latin1":
		statements = append(append([]string{"SET NAMES latin1"}, statements...), "SET NAMES utf8mb4")
	case how == "in texts of latin1":
		statements[0] = strings.Replace(statements[0], "value LONGBLOB", "value LONGTEXT CHARACTER SET latin1", 1)
	case strings.Contains(how, "an older release"): // whose triggers insert nothing
		for i, s := range statements {
			s = strings.NewReplacer("value LONGBLOB", "value LONGTEXT", " LONGBLOB", " VARBINARY(255)").Replace(s)
			statements[i] = regexp.MustCompile(`'slidingttl \w+' IS NOT NULL`).ReplaceAllString(s, "1 = 0")
		}
		if how != "by an older release's trigger" {
			for _, s := range statements {
				if _, err := p.admin.ExecContext(ctx, s); err != nil {
					return fmt.Errorf("%s: %w", s, err)
				}
			}
			return p.keep(ctx, d, "")
		}
	case how == "by another table's trigger":
		for i, s := range statements {
			statements[i] = strings.Replace(s, on, " ON "+d.name+"_other ", 1)
		}
		statements = append([]string{"CREATE TABLE " + d.name + "_other AS SELECT * FROM " + d.quoted() + " WHERE 1 = 0"}, statements...)
	}
	if p.user != "" {
		statements = append(statements, fmt.Sprintf(grant, d.replacedTable(), p.user))
	}
	conn, err := p.admin.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

var errGivenUp = errors.New("given up")

// TestConfigurations: either Check refuses a configuration by name, or the contract's short form
// holds there, and a walk over whatever rows its columns can hold counts each record once.
func TestConfigurations(t *testing.T) {
	for name := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed, most, suspects := configurationsOf(name)
			y := newYard(t, name)
			all := configurations(name, rand.New(rand.NewPCG(seed, 1)), suspects)
			refused := make(map[string]int)
			for i, c := range all[:min(most, len(all))] {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					j := y.try(t, c)
					suspect := c.suspect(name)
					if j.refused != nil {
						refused[cmp.Or(suspect, "sound")]++
						t.Logf("%s %s: refused: %v", name, cmp.Or(suspect, "sound"), strings.ReplaceAll(j.refused.Error(), "\n", "; "))
					}
					if j.refused != nil && suspect == "" {
						t.Errorf("Check refuses what is sound: %v", j.refused)
					}
					for _, f := range j.faults {
						t.Error(name, cmp.Or(suspect, "sound"), f)
					}
					if t.Failed() {
						t.Logf("%s in %v", cmp.Or(suspect, "sound"), c)
					}
				})
			}
			t.Logf("%d configurations, seed %d; refused %v", min(most, len(all)), seed, refused)
		})
	}
}

// suspect names c's suspect value, if it has one.
func (c configuration) suspect(db string) string {
	for _, d := range dimensions[db] {
		if slices.Contains(d.suspect, c[d.name]) {
			return d.name + "=" + c[d.name]
		}
	}
	return ""
}

// contractOf is the contract's short form.
type contractOf[T any] struct {
	ctx    context.Context
	d      *Driver[T]
	admin  *Driver[T] // another process's, with all rights
	opts   *Options[T]
	y      *yard
	p      *place
	c      configuration
	v      func(int) T
	store  *slidingttl.Store[T]
	mu     sync.Mutex // guards faults
	faults []string
}

func (k *contractOf[T]) errorf(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = append(k.faults, fmt.Sprintf(format, args...))
	if len(k.faults) > 10 {
		panic(errGivenUp)
	}
}

// key puts a name into the configuration's layout.
func (k *contractOf[T]) key(name string) string {
	switch k.c["layout"] {
	case "tenant number and id", "tenant digits and id", "counted tenant and id":
		return "7/" + name
	case "tenant text and id":
		return "seven/" + name
	}
	return name
}

func (k *contractOf[T]) same(got T, want int) bool {
	return k.c["T"] == "life only" || reflect.DeepEqual(got, k.v(want))
}

// bear reports whether a call with a key or value that the table may not hold succeeded. An error
// must say that the row cannot be held.
func (k *contractOf[T]) bear(what string, err error) bool {
	if err != nil && !errors.Is(err, driver.ErrInvalid) {
		k.errorf("%s: %v", what, err)
	}
	return err == nil
}

func (k *contractOf[T]) run() {
	var err error
	k.store, err = slidingttl.New(k.d, k.c.policy(), &slidingttl.Options[T]{TouchWait: 10 * time.Second})
	if err != nil {
		k.errorf("New: %v", err)
		return
	}
	defer func() {
		if err := k.store.Close(context.WithoutCancel(k.ctx)); err != nil {
			k.errorf("Close: %v", err)
		}
	}()
	if k.c["kind"] == "child table" { // a record of the child is one of the table
		key := k.key("child")
		if k.bear("Insert", k.store.Insert(k.ctx, key, k.v(1))) {
			for _, s := range []string{"INSERT INTO %[1]s_child SELECT * FROM %[1]s", "DELETE FROM ONLY %[1]s"} {
				if err := k.p.create(k.ctx, fmt.Sprintf(s, k.p.table)); err != nil {
					k.errorf("%s: %v", s, err)
				}
			}
			if err := k.store.Insert(k.ctx, key, k.v(2)); !errors.Is(err, slidingttl.ErrExists) {
				k.errorf("Insert over a record of the child: %v", err)
			}
		}
	}
	live := k.keys()
	k.lives()
	k.besides()
	k.transactions()
	k.refusedIn()
	k.raced()
	k.wrapped()
	k.referred()
	k.snapshot()
	k.dying()
	k.keeps()
	k.walks(live)
}

// spelled are texts of which two or more are one value of some type.
var spelled = []string{
	"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc999c0b4ef8bb6d6bb9bd380a11",
	"10.0.0.1", "10.0.0.1/32", "10.0.0.01", "::1", "0::1", "08:00:2b:01:02:03", "08002b:010203", "true", "yes", "2020-01-01", "20200101", "2020-1-1",
	"2020-01-01 00:00:00+00", "2020-01-01 01:00:00+01", "1 day", "24 hours", "101", "B101", "{a,b}", `{"a",b}`, "0/1", "0/01", "[1,2)", "[1,1]",
}

// keys writes under keys that some column or collation may take for each other.
func (k *contractOf[T]) keys() (live []string) {
	names := []string{"abcdef", "AbCdEf", "abcdef ", "abcd\u00e9f", "abcde\u0301f", "abcdef\u00ad", "1", "01", "1.0", "1e0", `a\b`, `\x41`, "A", "\x01", "\U0001f600", "%", strings.Repeat("k", 100), strings.Repeat("k", 101),
		strings.Repeat("s", 60), strings.Repeat("s", 60) + " ", strings.Repeat("z", 58) + "    "}
	names = append(append(names, "a\ufffd", "a\ufffe", "a\uffff"), spelled...)
	var keys []string
	for _, name := range names {
		keys = append(keys, k.key(name))
	}
	if k.c["layout"] == "tenant text and id" {
		keys = append(keys, "Seven/abcdef", "seven /abcdef", "s\u00e9ven/abcdef")
	}
	if k.c["layout"] == "tenant digits and id" {
		keys = append(keys, "99999999999999999998/abcdef", "99999999999999999999/abcdef", "07/abcdef")
	}
	if strings.HasSuffix(k.c["layout"], " and id") && k.c["layout"] != "tenant text and id" {
		keys = append(keys, "0/abcdef", "1/abcdef", "2/abcdef")
	}
	for i, key := range keys {
		if k.bear(fmt.Sprintf("Insert of %q", key), k.store.Insert(k.ctx, key, k.v(i))) {
			live = append(live, key)
		}
	}
	if of := k.c.suspect(k.y.name); len(live) == 0 && !strings.HasPrefix(of, "key=") && !strings.HasPrefix(of, "value=") && !strings.HasPrefix(of, "owner=") && of != "kind=strict key BLOB" {
		k.errorf("Check passes, and each write is refused")
	}
	for i, key := range keys {
		v, err := k.store.Get(k.ctx, key)
		switch held := slices.Contains(live, key); {
		case held && (err != nil || !k.same(v, i)):
			k.errorf("Get of %q, which was inserted: %+v, %v", key, v, err)
		case !held && err == nil:
			k.errorf("Get of %q, which was refused: %+v", key, v)
		}
		if slices.Contains(live, key) {
			k.archived(key, i)
			if _, err := k.admin.Get(k.ctx, key); err != nil {
				k.errorf("another process's Get of %q, which was inserted: %v", key, err)
			}
		}
	}
	found, err := k.store.GetMulti(k.ctx, live)
	if err != nil || len(found) != len(live) {
		k.errorf("GetMulti: %d of %d, %v", len(found), len(live), err)
	}
	return live
}

// archived wants a value whole in the database's own form.
func (k *contractOf[T]) archived(key string, i int) {
	if k.c["T"] == "life only" {
		return
	}
	raw, err := k.d.Raw(k.ctx, key)
	var got, want any
	if err == nil {
		err = json.Unmarshal(raw.Value, &got)
	}
	if err != nil || !utf8.Valid(raw.Value) {
		k.errorf("Raw: %q, %v", raw.Value, err)
		return
	}
	if v, ok := any(k.v(i)).(shop); ok {
		o, _ := got.(map[string]any)
		data, _ := o["data"].(string)
		if owner, ok := o["owner"].(string); ok && owner != v.Owner || o["n"] != float64(v.N) || o["part"] != v.Part || strings.TrimPrefix(strings.ToLower(data), `\x`) != hex.EncodeToString([]byte(v.Data)) {
			k.errorf("Raw: %s for %+v", raw.Value, v)
		}
		return
	}
	if v, ok := any(k.v(i)).(wide); ok {
		o, _ := got.(map[string]any)
		for n, text := range v {
			if len(o) != len(v) || o[fmt.Sprint("c", n)] != text {
				k.errorf("Raw: %s for %q", raw.Value, v)
				return
			}
		}
		return
	}
	text, err := json.Marshal(k.v(i))
	if err = errors.Join(err, json.Unmarshal(text, &want)); err != nil || !reflect.DeepEqual(got, want) {
		k.errorf("Raw: %s for %s, %v", raw.Value, text, err)
	}
}

// lives follows one record through its life.
func (k *contractOf[T]) lives() {
	key := k.key("life")
	ctx, s := k.ctx, k.store
	first, err := s.UpsertEntry(ctx, key, k.v(1))
	if !k.bear("Upsert", err) || err != nil {
		if strings.HasSuffix(k.c["expires"], " for 15 years") {
			k.errorf("Upsert with the policy that Check was given: %v", err)
		}
		return
	}
	if err := s.Insert(ctx, key, k.v(2)); !errors.Is(err, slidingttl.ErrExists) {
		k.errorf("Insert over a live record: %v", err)
	}
	second, err := s.UpsertEntry(ctx, key, k.v(3))
	if err != nil || second.CreatedAt != first.CreatedAt || second.ExpiresAt < first.ExpiresAt {
		k.errorf("Upsert over %+v: %+v, %v", first.Meta, second.Meta, err)
	}
	for until := second.ExpiresAt + 2; ; {
		e, err := s.Entry(ctx, key)
		if err != nil || e.CreatedAt != first.CreatedAt || !k.same(e.Value, 3) {
			k.errorf("Entry: %+v, %v; created at %d", e, err, first.CreatedAt)
			break
		}
		if stored, err := k.d.Get(ctx, key); err != nil || stored.Life != e.Life {
			k.errorf("stored is %+v, %v; want %+v", stored.Meta, err, e.Meta)
			break
		}
		if e.ExpiresAt >= until {
			break
		}
	}
	if _, err := s.Update(ctx, key, func(T) (T, error) { return k.v(4), nil }); err != nil {
		k.errorf("Update: %v", err)
	}
	if e, err := s.Peek(ctx, key); err != nil || !k.same(e.Value, 4) || e.CreatedAt != first.CreatedAt {
		k.errorf("after Update: %+v, %v", e, err)
	}
	if err := s.Retire(ctx, key); err != nil {
		k.errorf("Retire: %v", err)
	}
	if _, err := s.Get(ctx, key); !errors.Is(err, slidingttl.ErrNotFound) {
		k.errorf("Get of a retired record: %v", err)
	}
	next, err := s.InsertEntry(ctx, key, k.v(5))
	for i := 0; i < 100 && errors.Is(err, slidingttl.ErrExists); i++ { // the database's clock is a millisecond behind
		next, err = s.InsertEntry(ctx, key, k.v(5))
	}
	if err != nil || next.CreatedAt <= first.CreatedAt {
		k.errorf("Insert over a dead record: %+v, %v", next.Meta, err)
	}
	if e, err := s.Peek(ctx, key); err != nil || e.Meta != next.Meta {
		k.errorf("after Insert: %+v, %v; want %+v", e.Meta, err, next.Meta)
	}
	if err := s.Delete(ctx, key); err != nil {
		k.errorf("Delete: %v", err)
	}
	if _, err := s.Get(ctx, key); !errors.Is(err, slidingttl.ErrNotFound) {
		k.errorf("Get of a deleted record: %v", err)
	}
}

// besides reads records that nobody deletes, beside deletes of others, on several connections.
func (k *contractOf[T]) besides() {
	const workers, each = 4, 40
	var group errgroup.Group
	var all [2 * workers]*Driver[T]
	for i := range all {
		if all[i] = k.d; k.p.again != nil && strings.HasSuffix(k.c["access"], "one connection") {
			var err error
			if all[i], err = New(k.p.again(), databases[k.y.name].dialect, k.p.table, k.opts); err != nil {
				k.errorf("New: %v", err)
				return
			}
		}
	}
	for w := range workers {
		for i := range each / 4 {
			if !k.bear("Upsert", k.store.Upsert(k.ctx, k.key(fmt.Sprintf("beside%d-%d", w, i)), k.v(i))) {
				return
			}
		}
		group.Go(func() error {
			for i := range each {
				if err := all[w].Delete(k.ctx, k.key(fmt.Sprintf("absent%d-%d", w, i))); err != nil {
					return err
				}
			}
			return nil
		})
		group.Go(func() error {
			for i := range each {
				i %= each / 4
				if e, err := all[workers+w].Get(k.ctx, k.key(fmt.Sprintf("beside%d-%d", w, i))); err != nil || !k.same(e.Value, i) {
					return fmt.Errorf("Get of a record that nobody deletes: %+v, %w", e, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		k.errorf("beside deletes of other keys: %v", err)
	}
}

// transactions commits one and rolls another back.
func (k *contractOf[T]) transactions() {
	for i, commit := range []bool{true, false} {
		key, old := k.key(fmt.Sprintf("in%d", i)), k.key(fmt.Sprintf("old%d", i))
		if !k.bear("Upsert", k.store.Upsert(k.ctx, old, k.v(1))) {
			return
		}
		tx, err := k.p.db.BeginTx(k.ctx, nil)
		if err != nil {
			k.errorf("BeginTx: %v", err)
			return
		}
		in := WithTx(k.ctx, tx)
		if err := k.store.Insert(in, key, k.v(2)); err != nil {
			k.errorf("Insert in a transaction: %v", err)
		}
		if _, err := k.store.Update(in, old, func(T) (T, error) { return k.v(3), nil }); err != nil {
			k.errorf("Update in a transaction: %v", err)
		}
		var many []slidingttl.Item[T]
		for n := range 10 {
			many = append(many, slidingttl.Item[T]{Key: k.key(fmt.Sprintf("many%d-%d", i, n)), Value: k.v(10 + n)})
		}
		if err := k.store.UpsertMulti(in, many); err != nil {
			k.errorf("UpsertMulti in a transaction: %v", err)
		}
		want, end := 1, tx.Rollback
		if commit {
			want, end = 3, tx.Commit
		}
		if err := end(); err != nil {
			k.errorf("the end of a transaction: %v", err)
		}
		if _, err := k.store.Get(k.ctx, key); (err == nil) != commit {
			k.errorf("Get after a transaction, committed %v: %v", commit, err)
		}
		for n, item := range many {
			if v, err := k.store.Get(k.ctx, item.Key); (err == nil) != commit || commit && !k.same(v, 10+n) {
				k.errorf("Get of one of many after a transaction, committed %v: %+v, %v", commit, v, err)
			}
		}
		if v, err := k.store.Get(k.ctx, old); err != nil || !k.same(v, want) {
			k.errorf("Get after a transaction, committed %v: %+v, %v", commit, v, err)
		}
	}
}

// refusedIn rolls back a transaction in which the table has refused a row.
func (k *contractOf[T]) refusedIn() {
	if !strings.HasPrefix(k.c["extra"], "unique owner") {
		return
	}
	tx, err := k.p.db.BeginTx(k.ctx, nil)
	if err != nil {
		k.errorf("BeginTx: %v", err)
		return
	}
	in, keys := WithTx(k.ctx, tx), []string{k.key("one owner"), k.key("same owner"), k.key("other owner")}
	if !k.bear("Insert in a transaction", k.store.Insert(in, keys[0], k.v(1000))) {
		_ = tx.Rollback() // the key's column holds no such text
		return
	}
	if err := k.store.Insert(in, keys[1], k.v(1000)); !errors.Is(err, driver.ErrInvalid) {
		k.errorf("Insert of another's owner in a transaction: %v", err)
	}
	_ = k.store.Insert(in, keys[2], k.v(1001))
	_ = tx.Rollback() // an error if the database has ended it
	for _, key := range keys {
		if _, err := k.store.Get(k.ctx, key); !errors.Is(err, driver.ErrNotFound) {
			k.errorf("Get of %q after a rollback: %v", key, err)
		}
	}
}

// raced writes a new key by several calls at once, with one value, whose owner is unique: it is the key's own.
func (k *contractOf[T]) raced() {
	if !strings.HasPrefix(k.c["extra"], "unique owner") {
		return
	}
	for i := range 60 {
		key := k.key(fmt.Sprint("raced", i))
		if i == 0 && !k.bear("Upsert", k.store.Upsert(k.ctx, key, k.v(2000))) {
			return
		}
		var group errgroup.Group
		for call := range 6 {
			group.Go(func() error {
				write := k.store.Upsert
				if call%2 > 0 {
					write = k.store.Insert
				}
				if err := write(k.ctx, key, k.v(2000+i)); err != nil && (call%2 == 0 || !errors.Is(err, slidingttl.ErrExists)) {
					return err
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			k.errorf("of Upserts and Inserts of one new key at once: %v", err)
		}
	}
}

// snapshot makes calls in a transaction that began to read before another's touch: each works, or
// the whole transaction is to be begun again, and nothing of it stays.
func (k *contractOf[T]) snapshot() {
	switch {
	case strings.HasSuffix(k.c["access"], "one connection"), k.c["access"] == "wal, immediate", k.y.name == "mariadb" && k.c["isolation"] == "SERIALIZABLE":
		return // the other would wait for the transaction
	}
	for i, call := range []func(in context.Context, key string) error{
		func(in context.Context, key string) error { _, err := k.store.Get(in, key); return err },
		func(in context.Context, key string) error {
			found, err := k.store.GetMulti(in, []string{key})
			if err == nil && len(found) == 0 {
				err = slidingttl.ErrNotFound
			}
			return err
		},
		func(in context.Context, key string) error {
			_, err := k.store.Update(in, key, func(T) (T, error) { return k.v(2), nil })
			return err
		},
		func(in context.Context, key string) error { return k.store.Upsert(in, key, k.v(2)) },
		func(in context.Context, key string) error { return k.store.Retire(in, key) },
	} {
		key, others := k.key(fmt.Sprintf("seen%d", i)), [3]string{}
		for n := range others {
			others[n] = k.key(fmt.Sprintf("seen%d-%d", i, n))
		}
		if !k.bear("Upsert", k.store.Upsert(k.ctx, key, k.v(1))) {
			return
		}
		tx := k.outdated(key)
		if tx == nil {
			return
		}
		in := WithTx(k.ctx, tx)
		err := call(in, key)
		if err == nil {
			if err := tx.Commit(); err != nil {
				k.errorf("the end of a transaction with a snapshot, call %d: %v", i, err)
			}
			continue
		}
		if !errors.Is(err, slidingttl.ErrConflict) {
			k.errorf("call %d in a transaction with a snapshot: %v", i, err)
		}
		if err := k.store.Insert(in, others[1], k.v(1)); err == nil && k.y.name != "sqlite" {
			k.errorf("after %d: an Insert in a transaction that the server has ended", i)
		}
		split, err := k.d.key.split(others[2])
		if err != nil {
			k.errorf("split: %v", err)
		} else if _, err := tx.ExecContext(k.ctx, k.d.dialect.bind("INSERT INTO "+k.d.quoted()+" ("+strings.Join(k.d.keyColumns(), ", ")+") VALUES ("+listed("?", len(split.columns))+")"), split.columns...); err == nil && k.y.name != "sqlite" {
			k.errorf("after %d: a statement in a transaction that the server has ended", i)
		}
		_ = tx.Rollback()
		for _, other := range others {
			if _, err := k.d.Get(k.ctx, other); !errors.Is(err, driver.ErrNotFound) {
				k.errorf("Get of what call %d was to be rolled back with: %v", i, err)
			}
		}
	}
}

// expire makes a record expire after keep, and returns when.
func (k *contractOf[T]) expire(key string, keep time.Duration) (until driver.Instant, err error) {
	was, err := k.d.Get(k.ctx, key)
	if err != nil {
		return 0, err
	}
	now := driver.Floor(k.d.Now())
	_, err = k.d.Touch(k.ctx, key, was.Meta, driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: now.Add(keep)}, now)
	return now.Add(keep), err
}

// outdated returns a transaction in whose snapshot a record is dead by now that another has touched since.
func (k *contractOf[T]) outdated(key string) *stdsql.Tx {
	for keep := 50 * time.Millisecond; ; keep *= 2 {
		until, err := k.expire(key, keep)
		if errors.Is(err, driver.ErrConflict) { // the time was over before it landed
			continue
		}
		var tx *stdsql.Tx
		if err == nil {
			tx, err = k.p.db.BeginTx(k.ctx, nil)
		}
		if err != nil {
			k.errorf("Touch, BeginTx: %v", err)
			return nil
		}
		var n int
		if err := tx.QueryRowContext(k.ctx, "SELECT COUNT(*) FROM "+k.d.quoted()).Scan(&n); err != nil {
			k.errorf("COUNT: %v", err)
		}
		if _, err = k.store.Touch(k.ctx, key); err == nil {
			for driver.Floor(k.d.Now()) <= until+1 {
			}
			return tx
		}
		_ = tx.Rollback()
		if !errors.Is(err, slidingttl.ErrNotFound) {
			k.errorf("Touch beside a transaction: %v", err)
			return nil
		}
		if err := k.store.Upsert(k.ctx, key, k.v(1)); err != nil { // it was too slow
			k.errorf("Upsert: %v", err)
			return nil
		}
	}
}

// dying reads a record that lives, for less than a second, in a read-only transaction, which may take no lock.
func (k *contractOf[T]) dying() {
	if k.y.name != "postgres" {
		return
	}
	for key := k.key("dying"); ; {
		if !k.bear("Upsert", k.store.Upsert(k.ctx, key, k.v(1))) {
			return
		}
		until, err := k.expire(key, 800*time.Millisecond)
		if errors.Is(err, driver.ErrConflict) { // the time was over before it landed
			continue
		}
		var tx *stdsql.Tx
		if err == nil {
			tx, err = k.p.db.BeginTx(k.ctx, &stdsql.TxOptions{ReadOnly: true})
		}
		if err != nil {
			k.errorf("Get, Touch, BeginTx: %v", err)
			return
		}
		_, err = k.store.Get(WithTx(k.ctx, tx), key)
		_ = tx.Rollback()
		if driver.Floor(k.d.Now()).Add(100*time.Millisecond) < until { // else it may have died
			if err != nil {
				k.errorf("Get of a record that lives in a read-only transaction: %v", err)
			}
			return
		}
	}
}

// referred makes calls beside a transaction of the application that refers to a record's row, and then
// updates that: it must not end in a deadlock.
func (k *contractOf[T]) referred() {
	if k.y.name != "postgres" {
		return
	}
	key := k.key("referred")
	if !k.bear("Upsert", k.store.Upsert(k.ctx, key, k.v(1))) {
		return
	}
	split, err := k.d.key.split(key)
	if err != nil {
		k.errorf("split: %v", err)
		return
	}
	columns := strings.Join(k.d.keyColumns(), ", ")
	is := " WHERE (" + columns + ") IN (" + tuples(1, len(split.columns)) + ")"
	for _, s := range []string{"CREATE UNLOGGED TABLE %[1]s_orders (LIKE %[1]s)", "ALTER TABLE %[1]s_orders ADD FOREIGN KEY (%[2]s) REFERENCES %[1]s (%[2]s)"} {
		if _, err := k.p.admin.ExecContext(k.ctx, fmt.Sprintf(s, k.p.table, columns)); err != nil {
			k.errorf("%s: %v", s, err)
			return
		}
	}
	for what, call := range map[string]func() error{
		"Update": func() error {
			_, err := k.store.Update(k.ctx, key, func(T) (T, error) { return k.v(2), nil })
			return err
		},
		"Upsert": func() error { return k.store.Upsert(k.ctx, key, k.v(3)) },
		"Touch":  func() error { _, err := k.store.Touch(k.ctx, key); return err },
		"Get":    func() error { _, err := k.store.Get(k.ctx, key); return err }, // adopts it
		"Retire": func() error { return errors.Join(k.store.Retire(k.ctx, key), k.store.Upsert(k.ctx, key, k.v(4))) },
	} {
		var tx *stdsql.Tx
		var err error
		if what == "Get" {
			_, err = k.p.admin.ExecContext(k.ctx, k.d.dialect.bind("UPDATE "+k.p.table+" SET created_at = NULL"+is), split.columns...)
		}
		if err == nil {
			tx, err = k.p.admin.BeginTx(k.ctx, nil)
		}
		if err != nil {
			k.errorf("UPDATE, BeginTx: %v", err)
			return
		}
		var own int
		err = tx.QueryRowContext(k.ctx, "SELECT pg_backend_pid()").Scan(&own)
		do := func(s string, args ...any) {
			if err == nil {
				_, err = tx.ExecContext(k.ctx, k.d.dialect.bind(s), args...)
			}
		}
		do("SET LOCAL deadlock_timeout = '10ms'") // it looks for deadlocks first
		do("INSERT INTO "+k.p.table+"_orders SELECT * FROM "+k.p.table+is, split.columns...)
		done := make(chan error, 1)
		go func() { done <- call() }()
		for waits := false; err == nil && !waits && len(done) == 0; {
			err = k.p.admin.QueryRowContext(k.ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))", own).Scan(&waits)
		}
		do("UPDATE "+k.p.table+" SET sweep_at = sweep_at"+is, split.columns...)
		if err == nil {
			err = tx.Commit()
		} else {
			_ = tx.Rollback()
		}
		if err, other := err, <-done; err != nil || other != nil {
			k.errorf("an application's transaction that refers to the record: %v; %s: %v", err, what, other)
		}
	}
}

// keeps wants a replaced life, and a record deleted alive, handed over.
func (k *contractOf[T]) keeps() {
	if !k.opts.Replaced {
		return
	}
	replaced, deleted := k.key("replaced"), k.key("deleted")
	if !k.bear("Upsert", k.store.Upsert(k.ctx, replaced, k.v(1))) {
		return
	}
	for at := driver.Floor(k.d.Now()); driver.Floor(k.d.Now()) <= at; { // a life is told by its millisecond
	}
	err := errors.Join(k.store.Retire(k.ctx, replaced), k.store.Upsert(k.ctx, deleted, k.v(2)))
	held := make(map[string]driver.Raw)
	for _, key := range []string{replaced, deleted} {
		raw, problem := k.d.Raw(k.ctx, key)
		held[key], err = raw, errors.Join(err, problem)
	}
	if err = errors.Join(err, k.store.Delete(k.ctx, deleted)); err != nil {
		k.errorf("Retire, Upsert, Raw, Delete: %v", err)
	}
	err = slidingttl.ErrExists
	for i := 0; i < 100 && errors.Is(err, slidingttl.ErrExists); i++ { // the database's clock is a millisecond behind
		err = k.store.Insert(k.ctx, replaced, k.v(3))
	}
	if err != nil {
		k.errorf("Insert over a retired record: %v", err)
	}
	buried := make(map[string]int)
	var wrong []string
	s, err := k.d.Sweeper(&SweepOptions{Bury: func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, d := range dead {
			buried[fmt.Sprint(d.Key, d.Deleted)]++
			if was, ok := held[d.Key]; ok && !bytes.Equal(d.Value, was.Value) {
				wrong = append(wrong, fmt.Sprintf("%q for %q", d.Value, was.Value))
			}
		}
		return nil
	}})
	if err == nil {
		err = s.Sweep(k.ctx)
	}
	if len(wrong) > 0 {
		k.errorf("buried with other values than the rows had: %s", strings.Join(wrong, ", "))
	}
	want := 0
	if k.opts.Deletes {
		want = 1
	}
	if err != nil || buried[fmt.Sprint(replaced, false)] != 1 || buried[fmt.Sprint(deleted, true)] != want {
		k.errorf("a sweep buries %d replaced lives and %d deleted ones, %v; want 1 and %d", buried[fmt.Sprint(replaced, false)], buried[fmt.Sprint(deleted, true)], err, want)
	}
}

// rows is a repository with values of its own, beside the life that the driver keeps.
type rows[T any] struct {
	k  *contractOf[T]
	tx *stdsql.Tx
}

func (r rows[T]) Get(context.Context, string) (v T, err error) { return v, nil }

func (r rows[T]) Upsert(ctx context.Context, key string, _ T) error {
	d := r.k.d
	of, err := d.key.split(key)
	if err == nil {
		_, err = r.tx.ExecContext(ctx, d.dialect.bind("INSERT INTO "+d.quoted()+" ("+strings.Join(d.keyColumns(), ", ")+", value) VALUES ("+listed("?", len(of.columns))+", 'theirs')"), of.columns...)
	}
	return err
}

// wrapped saves a value by a wrapped repository in a transaction.
func (k *contractOf[T]) wrapped() {
	if k.c["T"] != "life only" {
		return
	}
	tx, err := k.p.db.BeginTx(k.ctx, nil)
	if err != nil {
		k.errorf("BeginTx: %v", err)
		return
	}
	wrapped, err := slidingttl.Wrap(rows[T]{k, tx}, k.store, func(key string) string { return key }, nil)
	if err != nil {
		k.errorf("Wrap: %v", err)
	} else if err = wrapped.Upsert(WithTx(k.ctx, tx), k.key("wrapped"), k.v(1)); !k.bear("Upsert of a wrapped repository in a transaction", err) {
		_ = tx.Rollback()
		return
	}
	if err := tx.Commit(); err != nil {
		k.errorf("the end of a transaction: %v", err)
	}
	if e, err := k.d.Get(k.ctx, k.key("wrapped")); err != nil || e.CreatedAt == 0 || e.ExpiresAt == 0 {
		k.errorf("a record that a wrapped repository saved in a transaction has %+v, %v", e.Meta, err)
	}
}

// odd are literals that a column of a type can hold and that no driver writes.
var odd = map[string][]string{
	"postgres bigint":      {"NULL", "0", "-1", "9223372036854775807", "-9223372036854775808"},
	"postgres timestamptz": {"NULL", "'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31'", "'epoch'"},
	"postgres timestamp":   {"NULL", "'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31'", "'epoch'"},
	"mariadb bigint":       {"NULL", "0", "-1", "9223372036854775807", "-9223372036854775808"},
	"mariadb timestamp":    {"NULL", "'0000-00-00'", "'2038-01-19 03:14:07'", "'1970-01-02 00:00:01'"},
	"mariadb datetime":     {"NULL", "'0000-00-00'", "'1000-01-01'", "'9999-12-31 23:59:59.999'", "'0001-01-01'"},
	"sqlite integer":       {"NULL", "0", "-1", "9223372036854775807", "-9223372036854775808", "1.5e300", "1000.5", "'yesterday'", "x'00ff'"},
	"sqlite text":          {"NULL", "''", "'yesterday'", "'9999-12-31'", "'-4713-01-01'", "x'00ff'", "'now'"},
	"postgres value text":  {"NULL", "''", "'no json'"},
	"postgres value json":  {"NULL", "'null'", "'[1]'", "'7'"},
	"mariadb value json":   {"NULL", "'null'", "'[1]'"},
	"mariadb value text":   {"NULL", "''", "'no json'"},
	"sqlite value":         {"NULL", "''", "'no json'", "x'00ff'", "1.5"},
	"sqlite version":       {"NULL", "0", "-1", "9223372036854775807", "1.5", "'yesterday'"},
	"number":               {"NULL", "0", "-1", "9223372036854775807", "-9223372036854775808"},
}

// oddOf returns those of a column.
func (k *contractOf[T]) oddOf(column string) []string {
	kind := strings.ToLower(k.c[strings.TrimSuffix(column, "_at")])
	strict := k.y.name == "sqlite" && k.c["kind"] == "strict"
	switch {
	case strict:
		return []string{"NULL"}
	case column == "version" && k.y.name == "sqlite":
		return odd["sqlite version"]
	case column == "version":
		return odd["number"]
	case column == "sweep_at":
		return odd["number"][1:]
	case column == "value" && (k.c["T"] == "columns" || k.c["T"] == "wide" || k.c["T"] == "life only"):
		return nil
	case column == "value" && k.y.name == "sqlite":
		return odd["sqlite value"]
	case column == "value" && strings.HasPrefix(kind, "json"):
		return odd[k.y.name+" value json"]
	case column == "value" && kind != "longblob":
		return odd[k.y.name+" value text"]
	case column == "value":
		return []string{"NULL", "''"}
	case k.y.name == "sqlite" && !strings.Contains(kind, "int"):
		return odd["sqlite text"]
	case k.y.name == "sqlite":
		return odd["sqlite integer"]
	case strings.HasPrefix(kind, "timestamptz"):
		return odd["postgres timestamptz"]
	case strings.HasPrefix(kind, "timestamp"):
		return odd[k.y.name+" timestamp"]
	case strings.HasPrefix(kind, "datetime"):
		return odd["mariadb datetime"]
	}
	return odd[k.y.name+" bigint"]
}

// walks plants rows that no driver writes, and dead ones, and wants each walk to count each once.
func (k *contractOf[T]) walks(sound []string) {
	if k.c["rights"] != "owner" && k.c["rights"] != "granted" && k.c["rights"] != "columns" {
		return
	}
	q := k.d.dialect.quote
	set := func(on database, name string, columns map[string]string) bool {
		key, err := k.d.key.split(k.key(name))
		if err != nil {
			k.errorf("split: %v", err)
			return false
		}
		names, marks, args := k.d.keyColumns(), listed("?", len(key.columns)), key.columns
		v, err := k.d.codec.encode(k.v(len(name) + 1000))
		if err != nil {
			k.errorf("encode: %v", err)
			return false
		}
		for i, c := range k.d.values {
			if columns[c] == "" {
				if c == "owner" {
					v[i] = name
				}
				names, marks, args = append(names, q(c)), marks+", ?", append(args, v[i])
			}
		}
		for c, literal := range columns {
			names, marks = append(names, q(c)), marks+", "+literal
		}
		_, err = on.ExecContext(k.ctx, k.d.dialect.bind("INSERT INTO "+k.d.quoted()+" ("+strings.Join(names, ", ")+") VALUES ("+marks+")"), args...)
		return err == nil // the table may hold no such row
	}
	now := driver.Floor(k.d.Now())
	life := func(at driver.Instant) map[string]string {
		return map[string]string{
			"created_at": strings.ReplaceAll(k.d.dialect.written(k.d.created.Type, fmt.Sprint(int64(at.Add(-time.Hour)))), "?", ""),
			"expires_at": strings.ReplaceAll(k.d.dialect.written(k.d.expires.Type, fmt.Sprint(int64(at))), "?", ""),
			"version":    "7", "sweep_at": "0",
		}
	}
	if set(k.p.db, "theirs", nil) {
		_, err := k.store.Get(k.ctx, k.key("theirs"))
		k.bear("Get of a row that an application has just inserted", err)
	}
	conn, err := k.p.admin.Conn(k.ctx)
	if err != nil {
		k.errorf("Conn: %v", err)
		return
	}
	if k.y.name == "mariadb" {
		_, _ = conn.ExecContext(k.ctx, "SET sql_mode = ''")
	}
	var odds, dead []string
	gone := make(map[string]bool) // which another program deleted, and nobody handed over yet
	for _, column := range []string{"created_at", "expires_at", "sweep_at", "version", "value"} {
		for i, literal := range k.oddOf(column) {
			for _, at := range []driver.Instant{now.Add(time.Hour), now.Add(-time.Hour)} {
				columns := life(at)
				columns[column] = literal
				name := fmt.Sprintf("odd-%s-%d-%v", column, i, at > now)
				if set(conn, name, columns) {
					odds = append(odds, k.key(name))
				}
				if name += "-gone"; k.opts.Deletes && set(conn, name, columns) {
					of, err := k.d.key.split(k.key(name))
					if err == nil {
						var done stdsql.Result
						if done, err = conn.ExecContext(k.ctx, k.d.dialect.bind("DELETE FROM "+k.d.quoted()+" WHERE ("+strings.Join(k.d.keyColumns(), ", ")+") IN ("+tuples(1, len(of.columns))+")"), of.columns...); err == nil {
							n, _ := done.RowsAffected() // none if the column has another key, without an error
							if n == 1 {
								gone[k.key(name)] = true
							}
						}
					}
					if err != nil {
						k.errorf("DELETE of an odd row: %v", err)
					}
				}
			}
		}
	}
	for i := range 20 {
		name, columns := fmt.Sprintf("dead%d", i), life(now.Add(-time.Hour))
		if i == 0 {
			delete(columns, "sweep_at") // which other programs do not know
		}
		if set(conn, name, columns) {
			dead = append(dead, k.key(name))
		}
	}
	for i := range 5 {
		set(conn, fmt.Sprintf("living%d", i), life(now.Add(time.Hour)))
	}
	if k.c["kind"] == "key that may be null" {
		for _, at := range []string{"1", "NULL", fmt.Sprint(int64(now.Add(time.Hour)))} {
			names, nulls := k.d.keyColumns(), "NULL"
			if len(names) > 1 {
				nulls = "7, NULL"
			}
			if _, err := conn.ExecContext(k.ctx, "INSERT INTO "+k.d.quoted()+" ("+strings.Join(names, ", ")+", expires_at) VALUES ("+nulls+", "+k.d.dialect.written(k.d.expires.Type, at)+")"); err != nil {
				k.errorf("INSERT of a key that is NULL: %v", err)
			}
		}
	}
	guarded := k.c["guards"] != "none" && k.c["guards"] != "table" && set(conn, "guarded", life(now.Add(-time.Hour)))
	if err := conn.Close(); err != nil {
		k.errorf("Close: %v", err)
	}
	if guarded {
		k.guard()
	}
	if len(dead) == 0 && k.c.suspect(k.y.name) == "" {
		k.errorf("no dead row was planted")
	}
	var living []string // as a scan spells them, for BINARY pads
	for key, r := range k.scan() {
		if r.Problem == nil && r.ExpiresAt > now.Add(30*time.Minute) {
			living = append(living, key)
		}
	}
	if len(living) == 0 && k.c.suspect(k.y.name) == "" {
		k.errorf("no living row was planted")
	}
	if _, err := k.d.Dying(k.ctx, now, now.Add(2*time.Hour), 100); err != nil {
		k.errorf("Dying: %v", err)
	}
	if _, _, err := k.d.Backlog(k.ctx); err != nil {
		k.errorf("Backlog: %v", err)
	}
	found, err := k.d.GetMulti(k.ctx, append(slices.Clone(sound), odds...))
	if failed, ok := errors.AsType[driver.KeyErrors](err); err != nil && !ok {
		k.errorf("GetMulti of sound and odd records: %v (%v)", err, failed)
	}
	for _, key := range sound {
		if _, ok := found[key]; !ok {
			k.errorf("GetMulti beside odd records has no %q", key)
		}
	}
	for _, key := range odds {
		if _, err := k.d.Get(k.ctx, key); err != nil && !errors.Is(err, driver.ErrInvalid) && !errors.Is(err, driver.ErrNotFound) {
			k.errorf("Get of %q: %v", key, err)
		}
		if _, err := k.d.Raw(k.ctx, key); err != nil && !errors.Is(err, driver.ErrInvalid) {
			k.errorf("Raw of %q: %v", key, err)
		}
		if _, err := k.store.Get(k.ctx, key); err != nil && !errors.Is(err, slidingttl.ErrInvalid) && !errors.Is(err, slidingttl.ErrNotFound) {
			k.errorf("Store.Get of %q: %v", key, err)
		}
	}
	k.planned()
	hand := func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, d := range dead {
			delete(gone, d.Key)
		}
		return k.free(living)
	}
	if k.c["guards"] == "table" && len(dead) > 0 {
		k.broken(hand)
	}
	for _, bury := range []bool{true, false} {
		o := &SweepOptions{Batch: 7}
		if bury {
			o.Bury = hand
		}
		s, err := k.d.Sweeper(o)
		if err != nil {
			k.errorf("Sweeper: %v", err)
			return
		}
		if err := s.Sweep(k.ctx); err != nil {
			k.errorf("Sweep, which buries %v: %v", bury, err)
		}
		if len(gone) > 0 {
			k.errorf("odd rows that another program deleted are not handed over: %v", slices.Collect(maps.Keys(gone)))
		}
	}
	if guarded {
		var n int
		if err := k.p.db.QueryRowContext(k.ctx, "SELECT COUNT(*) FROM "+k.d.quoted()+" WHERE id LIKE 'guarded%'").Scan(&n); err != nil || n != 1 {
			k.errorf("%d rows that a trigger guards are left after a sweep, %v", n, err)
		}
		if n, _, err := k.d.Backlog(k.ctx); err != nil || n == 0 {
			k.errorf("the backlog after a sweep has no row that a trigger guards, %v", err)
		}
	}
	for _, key := range dead {
		if _, err := k.d.Get(k.ctx, key); !errors.Is(err, driver.ErrNotFound) && !errors.Is(err, driver.ErrInvalid) {
			k.errorf("a dead row is there after a sweep: %v", err)
		}
	}
	for _, key := range sound {
		if _, err := k.store.Get(k.ctx, key); err != nil {
			k.errorf("Get of %q after a sweep: %v", key, err)
		}
	}
	k.scan()
}

// errLocked is free's error. It wraps none of the database's, for which a sweep passes a row by.
var errLocked = errors.New("a living row is locked while Bury runs, or is not found")

// free locks the rows of keys, as a touch does: each is there, and none may be locked for long.
func (k *contractOf[T]) free(keys []string) error {
	wait := map[string]string{"postgres": "FOR NO KEY UPDATE", "mariadb": "FOR UPDATE WAIT 10"}[k.y.name]
	if wait == "" { // SQLite has one lock for all rows
		return nil
	}
	ctx, cancel := context.WithTimeout(k.ctx, 10*time.Second) // ends a hang
	defer cancel()
	for _, key := range keys {
		of, err := k.d.key.split(key)
		for again := true; again && err == nil; { // after a deadlock, as a touch is
			// By Exec, go-sql-driver waits for ever if MariaDB finds no row.
			err = k.p.admin.QueryRowContext(ctx, k.d.dialect.bind("SELECT version FROM "+k.d.quoted()+" WHERE "+strings.Join(k.d.keyColumns(), " = ? AND ")+" = ? "+wait), of.columns...).Scan(new(any))
			if again = k.d.dialect.verdict(err) == collided; again {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("%w: %q: %v", errLocked, key, err)
		}
	}
	return nil
}

// guard makes a trigger that refuses to delete the row "guarded".
func (k *contractOf[T]) guard() {
	how, of, is := k.c["guards"], k.d.quoted(), "OLD.id LIKE 'guarded%'"
	own := map[string]string{"state": " USING ERRCODE = '99001'", "number": " SET MYSQL_ERRNO = 30001"}[how]
	keys := strings.Join(k.d.keyColumns(), ", ")
	statements := map[string][]string{
		"postgres": {
			"CREATE FUNCTION " + k.p.table + "_guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'guarded'" + own + "; END $$",
			"CREATE TRIGGER guard BEFORE DELETE ON " + of + " FOR EACH ROW WHEN (" + is + ") EXECUTE FUNCTION " + k.p.table + "_guard()",
		},
		"mariadb": {"CREATE TRIGGER " + k.p.table + "_guard BEFORE DELETE ON " + of + " FOR EACH ROW IF " + is + " THEN SIGNAL SQLSTATE '45000'" + own + "; END IF"},
		"sqlite":  {"CREATE TRIGGER guard BEFORE DELETE ON " + of + " WHEN " + is + " BEGIN SELECT RAISE(" + how + ", 'guarded'); END"},
	}[k.y.name]
	if how == "reference" { // and another, which SQLite takes and cannot check
		statements = []string{
			"CREATE TABLE orders (" + keys + ", FOREIGN KEY (" + keys + ") REFERENCES " + of + " (" + keys + ") DEFERRABLE INITIALLY DEFERRED)",
			"INSERT INTO orders SELECT " + keys + " FROM " + of + " WHERE id LIKE 'guarded%'",
			"CREATE TABLE tenants (id)", "CREATE TABLE users (tenant REFERENCES tenants (id))",
		}
	}
	for _, s := range statements {
		if _, err := k.p.admin.ExecContext(k.ctx, s); err != nil {
			k.errorf("%s: %v", s, err)
		}
	}
}

// broken wants a sweep to end with an error while a trigger fails for each row that is deleted.
func (k *contractOf[T]) broken(bury func(context.Context, *stdsql.Tx, []driver.Dead) error) {
	of, name := k.d.quoted(), k.p.table+"_broken"
	exec := func(statement string) {
		if _, err := k.p.admin.ExecContext(k.ctx, statement); err != nil {
			k.errorf("%s: %v", statement, err)
		}
	}
	create, drop := "CREATE TRIGGER "+name+" BEFORE DELETE ON "+of, "DROP TRIGGER "+name
	switch k.y.name {
	case "postgres":
		exec("CREATE FUNCTION " + name + "() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO gone VALUES (1); RETURN OLD; END $$")
		create, drop = create+" FOR EACH ROW EXECUTE FUNCTION "+name+"()", drop+" ON "+of
	case "mariadb":
		create += " FOR EACH ROW INSERT INTO gone VALUES (1)"
	default:
		create += " BEGIN INSERT INTO gone VALUES (1); END"
	}
	exec(create)
	for _, o := range []*SweepOptions{{}, {Bury: bury}} {
		s, err := k.d.Sweeper(o)
		if err != nil {
			k.errorf("Sweeper: %v", err)
			return
		}
		if err := s.Sweep(k.ctx); err == nil {
			k.errorf("a sweep that can delete no row ends without an error: %+v", s.Stats())
		} else if errors.Is(err, errLocked) {
			k.errorf("a sweep that can delete no row: %v", err)
		}
	}
	exec(drop)
}

// planned wants MySQL's sweeps to have an index that they may use.
func (k *contractOf[T]) planned() {
	if k.y.name != "mariadb" {
		return
	}
	query, args := (&Sweeper{table: k.d.table}).taking("<= 5", 10)
	var index stdsql.NullString
	var rest any
	err := k.p.db.QueryRowContext(k.ctx, "EXPLAIN "+query, args...).Scan(&rest, &rest, &rest, &rest, &index, &rest, &rest, &rest, &rest, &rest)
	if err != nil || !index.Valid {
		k.errorf("a sweep reads the whole table: %v", err)
	}
}

// scan wants walks, one of them in segments, to meet each row once. It returns what the last met.
func (k *contractOf[T]) scan() (seen map[string]driver.Scanned) {
	var rows, nulls int
	if err := k.p.db.QueryRowContext(k.ctx, "SELECT COUNT(id), COUNT(*) - COUNT(id) FROM "+k.d.quoted()).Scan(&rows, &nulls); err != nil {
		k.errorf("COUNT: %v", err)
		return nil
	}
	for _, segments := range []int{1, 3} {
		cursors, err := k.d.Segments(k.ctx, segments)
		if err != nil {
			k.errorf("Segments: %v", err)
			return nil
		}
		n, passed := 0, 0
		seen = make(map[string]driver.Scanned)
		for _, at := range cursors {
			for at != "" {
				page, err := k.d.Scan(k.ctx, at, 5)
				if err != nil {
					k.errorf("Scan: %v", err)
					return nil
				}
				for _, r := range page.Records {
					seen[r.Key] = r
					n++
				}
				passed += page.Passed
				if at = page.Next; n > 2*rows {
					at = ""
				}
			}
		}
		if n != rows || len(seen) != rows || passed != nulls {
			k.errorf("a scan met %d rows, %d of them different, and passed over %d; the table has %d, and %d without a key", n, len(seen), passed, rows, nulls)
		}
	}
	return seen
}
