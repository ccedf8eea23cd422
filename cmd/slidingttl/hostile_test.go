package main

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/couchbase/gocb/v2"
	"github.com/go-sql-driver/mysql"

	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/internal/hostile"
)

// unclean is a store that several programs have written to.
type unclean struct {
	uri    string
	layout string // the content of a layout file; empty: none
	micros bool   // created_at in another unit is not understood
	limits hostile.Limits
	load   hostile.Load
	all    func() map[string]string // everything that the store holds, by key
}

// guide is a document of at least so many commands, to be walked on s.
func (s unclean) guide(path string, least int) guide {
	return guide{path: path, uri: s.uri, files: map[string]string{"layout.json": cmp.Or(s.layout, "{}") + "\n"}, least: least}
}

var uncleanStores = map[string]func(*testing.T) unclean{
	"sqlite": func(t *testing.T) unclean {
		db, uri := sessionsIn(t, 0)
		execute(t, db, `CREATE TRIGGER guarded BEFORE UPDATE ON sessions WHEN old.id LIKE '%guarded' BEGIN SELECT RAISE(ABORT, 'frozen'); END`)
		execute(t, db, `CREATE TRIGGER kept BEFORE DELETE ON sessions WHEN old.id LIKE '%guarded' BEGIN SELECT RAISE(ABORT, 'frozen'); END`)
		return rows(t, db, uri, "INSERT INTO sessions (id, value, created_at, expires_at) VALUES (?, ?, ?, ?)")
	},
	"postgres": func(t *testing.T) unclean {
		driver, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
		uri := postgresURI(dsn)
		table(t, sql.PostgreSQL, driver, dsn, uri)
		db := must(stdsql.Open(driver, dsn))(t)
		t.Cleanup(func() { _ = db.Close() })
		execute(t, db, `CREATE FUNCTION frozen() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'frozen'; END $$ LANGUAGE plpgsql`)
		execute(t, db, `CREATE TRIGGER guarded BEFORE UPDATE OR DELETE ON sessions FOR EACH ROW WHEN (old.id LIKE '%guarded') EXECUTE FUNCTION frozen()`)
		return rows(t, db, uri, "INSERT INTO sessions (id, value, created_at, expires_at) VALUES ($1, $2, $3, $4)")
	},
	"mysql": func(t *testing.T) unclean {
		driver, dsn := sqltest.DSN(t, sqltest.MariaDB)
		c := must(mysql.ParseDSN(dsn))(t)
		uri := "mysql://" + c.User + "@/" + c.DBName + "?table=sessions&socket=" + c.Addr
		table(t, sql.MySQL, driver, dsn, uri)
		db := must(stdsql.Open(driver, dsn))(t)
		t.Cleanup(func() { _ = db.Close() })
		for _, when := range []string{"UPDATE", "DELETE"} {
			execute(t, db, `CREATE TRIGGER guarded`+when+` BEFORE `+when+` ON sessions FOR EACH ROW
				IF OLD.id LIKE '%guarded' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'frozen'; END IF`)
		}
		return rows(t, db, uri, "INSERT INTO sessions (id, value, created_at, expires_at) VALUES (?, ?, ?, ?)")
	},
	"couchbase": func(t *testing.T) unclean {
		n := open(t)
		keys := make(map[string]bool)
		load := func(_ context.Context, r hostile.Record) error {
			left := time.Until(r.ExpiresAt)
			if r.Alien || r.Guarded || left <= 0 {
				return errors.ErrUnsupported
			}
			specs := []gocb.MutateInSpec{gocb.UpsertSpec("v", strings.Repeat("v", r.Size), nil)}
			if r.CreatedAt != 0 {
				specs = append(specs, gocb.UpsertSpec("slidingttl.created_at", r.CreatedAt, &gocb.UpsertSpecOptions{IsXattr: true, CreatePath: true}))
			}
			if _, err := n.c.MutateIn(r.Key, specs, &gocb.MutateInOptions{StoreSemantic: gocb.StoreSemanticsUpsert, Expiry: left}); err != nil {
				t.Logf("%s: %v", r.Name, err)
				return errors.ErrUnsupported // a key that is too long, say
			}
			keys[r.Key] = true
			return nil
		}
		return unclean{uri: n.uri, limits: hostile.Limits{Key: 250}, load: load, all: func() map[string]string {
			found := make(map[string]string)
			for key := range keys {
				res, err := n.c.LookupIn(key, []gocb.LookupInSpec{gocb.GetSpec("$document", &gocb.GetSpecOptions{IsXattr: true})}, nil)
				if errors.Is(err, gocb.ErrDocumentNotFound) {
					continue
				}
				found[key] = fmt.Sprint(must(res, err)(t).Cas()) // every write changes it
			}
			return found
		}}
	},
	"redis": func(t *testing.T) unclean {
		server := redistest.Start(t)
		client := server.Client(t)
		for _, words := range [][]string{{"RPUSH", "app:list", "a", "b"}, {"HSET", "app:hash", "f", "v"}, {"SET", "counter of another", "41"}} {
			if err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		load := func(ctx context.Context, r hostile.Record) error {
			key := "app:" + r.Key
			if r.Alien {
				key = "another:" + r.Key
			}
			value := strings.Repeat("v", max(r.Size, 2))
			if r.CreatedAt != 0 {
				if r.CreatedAt < 0 || r.CreatedAt >= 1e15 || r.Guarded {
					return errors.ErrUnsupported
				}
				value = fmt.Sprintf("\x00sl1 %015d %015d %016x %s", r.CreatedAt, max(r.ExpiresAt.UnixMilli(), 0), 7, value)
			}
			if r.ExpiresAt.IsZero() {
				return client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error()
			}
			return client.Do(ctx, client.B().Set().Key(key).Value(value).PxatMillisecondsTimestamp(r.ExpiresAt.UnixMilli()).Build()).Error()
		}
		return unclean{uri: "redis://" + server.Option().InitAddress[0] + "?prefix=app:", limits: hostile.Limits{Value: 1 << 20}, load: load, all: func() map[string]string {
			found := make(map[string]string)
			for _, key := range must(client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice())(t) {
				dump := must(client.Do(t.Context(), client.B().Dump().Key(key).Build()).ToString())(t)
				found[key] = dump + fmt.Sprint(must(client.Do(t.Context(), client.B().Pexpiretime().Key(key).Build()).AsInt64())(t))
			}
			return found
		}}
	},
	"dynamodb": func(t *testing.T) unclean {
		client, table, uri := dynamodbTable(t)
		load := func(ctx context.Context, r hostile.Record) error {
			if r.Guarded {
				return errors.ErrUnsupported
			}
			key := "app#" + r.Key
			if r.Alien {
				key = "another#" + r.Key
			}
			item := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: key}}
			if !r.ExpiresAt.IsZero() {
				item["ttl"] = &types.AttributeValueMemberN{Value: fmt.Sprint(r.ExpiresAt.Unix())}
			}
			if r.CreatedAt != 0 {
				item["created_at"] = &types.AttributeValueMemberN{Value: fmt.Sprint(r.CreatedAt)}
			}
			if r.Size > 0 {
				item["v"] = &types.AttributeValueMemberS{Value: strings.Repeat("v", r.Size)}
				delete(item, "created_at") // so that it is to be adopted, and has no room for it
			}
			_, err := client.PutItem(ctx, &sdk.PutItemInput{TableName: &table, Item: item})
			if err != nil && strings.Contains(err.Error(), "ValidationException") {
				return errors.ErrUnsupported
			}
			return err
		}
		return unclean{uri: uri, layout: `{"partition_key": {"prefix": "app#"}}`, limits: hostile.Limits{Key: 2048 - 4, Value: 400<<10 - 60}, load: load, all: func() map[string]string {
			found := make(map[string]string)
			for _, item := range must(client.Scan(t.Context(), &sdk.ScanInput{TableName: &table}))(t).Items {
				text := ""
				for _, name := range []string{"created_at", "ttl", "slidingttl_version", "v"} {
					switch av := item[name].(type) {
					case *types.AttributeValueMemberS:
						text += "|" + av.Value
					case *types.AttributeValueMemberN:
						text += "|" + av.Value
					default:
						text += "|"
					}
				}
				found[item["pk"].(*types.AttributeValueMemberS).Value] = text
			}
			return found
		}}
	},
}

// rows is a table "sessions".
func rows(t *testing.T, db *stdsql.DB, uri, insert string) unclean {
	load := func(ctx context.Context, r hostile.Record) error {
		if r.Alien {
			return errors.ErrUnsupported
		}
		var created, expires any
		if !r.ExpiresAt.IsZero() {
			expires = r.ExpiresAt.UnixMilli()
		}
		if r.CreatedAt != 0 && !r.Guarded { // a guarded one is to be adopted
			created = r.CreatedAt
		}
		if _, err := db.ExecContext(ctx, insert, r.Key, `"`+strings.Repeat("v", r.Size)+`"`, created, expires); err != nil {
			return errors.ErrUnsupported // a key that is no text, say
		}
		return nil
	}
	return unclean{uri: uri, micros: true, limits: hostile.Limits{Key: 255, Value: 1 << 20}, load: load, all: func() map[string]string {
		found := make(map[string]string)
		rows := must(db.QueryContext(t.Context(), "SELECT id, value, COALESCE(created_at, 0), COALESCE(expires_at, 0) FROM sessions"))(t)
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var key, value string
			var created, expires int64
			if err := rows.Scan(&key, &value, &created, &expires); err != nil {
				t.Fatal(err)
			}
			found[key] = fmt.Sprint(value, created, expires)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return found
	}}
}

// counted is the number behind the label that a report has.
func counted(report, label string) (n int) {
	_, text, _ := strings.Cut(strings.Join(strings.Fields(report), " "), label+" ")
	_, _ = fmt.Sscan(strings.ReplaceAll(text, ",", ""), &n)
	return n
}

// Every operation goes through records that nobody meant to be there: it counts them, goes on,
// prints no key, and writes only what is its own to write.
func TestHostileRecords(t *testing.T) {
	const sound = 60
	for name, open := range uncleanStores {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			now := time.Now()
			loaded := must(hostile.LoadAll(t.Context(), s.load, hostile.Records(now, "", s.limits)))(t)
			if len(loaded) < 10 {
				t.Fatalf("the store holds %d of the hostile records", len(loaded))
			}
			for i := range sound {
				if err := s.load(t.Context(), hostile.Record{Key: fmt.Sprintf("sound-%03d", i), ExpiresAt: now.Add(time.Hour)}); err != nil {
					t.Fatal(err)
				}
			}
			// The dead are what a harvest is for, where the store still holds them.
			gone := must(hostile.LoadAll(t.Context(), s.load, hostile.Records(now.Add(-48*time.Hour), "gone-", s.limits)))(t)
			dir := t.TempDir()
			base := []string{s.uri}
			if s.layout != "" {
				file := filepath.Join(dir, "layout.json")
				if err := os.WriteFile(file, []byte(s.layout), 0o600); err != nil {
					t.Fatal(err)
				}
				base = append(base, "--layout", file)
			}
			runs, held := 0, s.all()
			operate := func(writes bool, op string, args ...string) string {
				t.Helper()
				runs++
				before := maps.Clone(held)
				out, code := "", 0
				times := [][]string{{"--checkpoint", filepath.Join(dir, fmt.Sprint(runs))}}
				if writes { // what is written twice is written once
					times = append(times, nil)
				}
				for i, more := range times {
					if op == "harvest" { // it keeps its place in the archive
						more = nil
					}
					var o, e strings.Builder
					all := append(append(append([]string{op}, base...), args...), more...)
					if mark := "?"; op == "harvest" {
						if strings.Contains(s.uri, mark) {
							mark = "&"
						}
						all[1] += mark + "retain=30d"
					}
					code = run(t.Context(), all, streams{in: strings.NewReader(""), out: &o, err: &e})
					if code != 0 && code != exitPartly {
						t.Fatalf("%q exits with %d: %s%s", all, code, &o, &e)
					}
					if out += o.String() + e.String(); i == 0 && strings.Contains(out, "not all were") {
						t.Errorf("%q has not looked at all:\n%s", all, out)
					}
				}
				for _, r := range append(gone, loaded...) {
					if len(r.Key) > 4 && strings.Contains(out, r.Key) {
						t.Errorf("%s prints the key of %s:\n%s", op, r.Name, out)
					}
				}
				after := s.all()
				held = after
				maps.DeleteFunc(before, func(key, _ string) bool { // what the store itself may have removed
					_, held := after[key]
					return !held && strings.Contains(key, "gone-")
				})
				if !writes && !maps.Equal(before, after) {
					t.Fatalf("%s wrote something", op)
				}
				for key, was := range before {
					foreign := strings.HasPrefix(key, "another") || strings.HasPrefix(key, "counter") || strings.HasSuffix(key, "list") || strings.HasSuffix(key, "hash")
					if foreign && after[key] != was {
						t.Errorf("%s wrote to another's %q", op, key)
					}
					if after[key] == "" && !strings.Contains(key, "gone-") {
						t.Errorf("%s removed %q, which is alive", op, key)
					}
				}
				return out
			}
			audit := operate(false, "audit", "--policy", thirty)
			if s.micros {
				contains(t, audit, "looks like a number of seconds", "looks like a number of micros")
			}
			if n := counted(audit, "no created at"); n < sound {
				t.Errorf("%d records without created_at:\n%s", n, audit)
			}
			operate(false, "diff", "--from-policy", thirty, "--to-policy", "idle 1d, max 2d")
			dry := operate(false, "adopt", "--policy", thirty)
			operate(false, "mend", "--created-at", "seconds")
			operate(false, "reap", "--policy", thirty, "--what", "past-cap,expired,retained")
			buried := t.TempDir()
			harvest := []string{buried, "--source", "s", "--policy", "idle 1h, max 1d", "--past-cap"}
			operate(false, "harvest", harvest...)
			harvested := operate(true, "harvest", append(harvest, "--apply", "--grace", "3m")...)
			if n := counted(harvested, "harvested: dead of age") + counted(harvested, "harvested: dead of idleness"); strings.Contains(s.uri, "table=") && n < 5 {
				t.Errorf("%d records were harvested of %d:\n%s", n, len(gone), harvested)
			}
			command(t, 0, "archive", "verify", buried)
			if strings.Contains(harvested, "ended") {
				t.Errorf("lives were ended by what is implausible:\n%s", harvested)
			}
			changes := filepath.Join(dir, "changes")
			before := held
			adopt := []string{"--policy", thirty, "--apply", "--writes", "0", "--errors", filepath.Join(dir, "errors"), "--undo", changes}
			operate(true, "adopt", adopt...)
			operate(false, "undo", changes)
			undone := operate(true, "undo", changes, "--apply", "--writes", "0")
			if n := counted(undone, "as before"); n < sound {
				t.Errorf("the adoption of %d records was taken back:\n%s", n, undone)
			}
			if exact := strings.HasPrefix(s.uri, "redis") || strings.Contains(s.uri, "table="); exact && !maps.Equal(before, held) {
				t.Errorf("after an undo the store does not hold what it held")
			}
			adopted := operate(true, "adopt", adopt...)
			if n, would := counted(adopted, "adopted"), counted(dry, "would be adopted"); strings.HasPrefix(s.uri, "dynamodb") && n != would {
				t.Errorf("%d records were adopted, and %d would be:\n%s", n, would, dry)
			}
			if n := counted(adopted, "adopted"); n < sound {
				t.Errorf("%d records were adopted:\n%s", n, adopted)
			}
			audit = operate(false, "audit", "--policy", thirty)
			if n := counted(audit, "slides"); n < sound {
				t.Errorf("%d records slide:\n%s", n, audit)
			}
			operate(true, "mend", "--created-at", "seconds", "--apply", "--writes", "0")
			operate(true, "mend", "--created-at", "micros", "--apply", "--writes", "0")
			reaped := operate(true, "reap", "--policy", thirty, "--what", "past-cap,expired,retained", "--apply", "--writes", "0")
			contains(t, reaped, "past their cap 0")
		})
	}
}
