package main

import (
	"context"
	stdsql "database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-sql-driver/mysql"

	"github.com/slidingttl/slidingttl/drivers/cosmos"
	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// must returns v, for a call that is not to fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// keyspace is records under user:0 and so on, that another program wrote.
type keyspace struct {
	uri string
	add func(key, value string) error // value is JSON
}

var keyspaces = map[string]func(*testing.T) keyspace{
	"couchbase": func(t *testing.T) keyspace {
		n := open(t)
		return keyspace{n.uri, func(key, value string) error {
			_, err := n.c.Upsert(key, json.RawMessage(value), nil)
			return err
		}}
	},
	"cosmos": func(t *testing.T) keyspace {
		container, uri := cosmosContainer(t)
		return keyspace{uri, func(key, value string) error {
			item := fmt.Sprintf(`{"id": %q, "content": %s}`, key, value)
			_, err := container.CreateItem(context.Background(), azcosmos.NewPartitionKeyString(key), []byte(item), nil)
			return err
		}}
	},
	"dynamodb": func(t *testing.T) keyspace {
		client, table, uri := dynamodbTable(t)
		return keyspace{uri, func(key, value string) error {
			_, err := client.PutItem(context.Background(), &sdk.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
				"pk": &types.AttributeValueMemberS{Value: key}, "content": &types.AttributeValueMemberS{Value: value},
			}})
			return err
		}}
	},
	"redis": func(t *testing.T) keyspace {
		server := redistest.Start(t)
		client := server.Client(t)
		return keyspace{"redis://" + server.Option().InitAddress[0] + "/0?prefix=app:", func(key, value string) error {
			return client.Do(context.Background(), client.B().Set().Key("app:"+key).Value(value).Build()).Error()
		}}
	},
	"postgres": func(t *testing.T) keyspace {
		driver, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
		return table(t, sql.PostgreSQL, driver, dsn, postgresURI(dsn))
	},
	"mysql": func(t *testing.T) keyspace {
		driver, dsn := sqltest.DSN(t, sqltest.MariaDB)
		c := must(mysql.ParseDSN(dsn))(t)
		return table(t, sql.MySQL, driver, dsn, "mysql://"+c.User+"@/"+c.DBName+"?table=sessions&socket="+c.Addr)
	},
	"sqlite": func(t *testing.T) keyspace {
		file := database(t)
		return table(t, sql.SQLite, "sqlite", sqltest.SQLiteDSN(file), "sqlite:"+file+"?table=sessions")
	},
}

// postgresURI is a URI of the words that a DSN consists of.
func postgresURI(dsn string) string {
	q := url.Values{"table": {"sessions"}}
	for word := range strings.FieldsSeq(dsn) {
		name, value, _ := strings.Cut(word, "=")
		q.Set(name, value)
	}
	return "postgres:///?" + q.Encode()
}

// cosmosContainer makes a container, and has the command let in.
func cosmosContainer(t *testing.T) (container *azcosmos.ContainerClient, uri string) {
	t.Helper()
	account := cosmostest.Start(t)
	d := must(cosmos.New[any](&azcosmos.ContainerClient{}, nil))(t)
	container = account.Container(t, d.Properties("sessions"))
	t.Setenv("SLIDINGTTL_COSMOS_KEY", account.Key())
	return container, cosmosURI(account)
}

// dynamodbTable makes a table, and has the command find its server.
func dynamodbTable(t *testing.T) (client *sdk.Client, table, uri string) {
	t.Helper()
	server := dynamodbtest.Start(t)
	client, table = server.Client(), server.Table(t)
	d := must(dynamodb.New[any](client, table, nil))(t)
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", server.Endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", "any")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	return client, table, "dynamodb://" + table + "?region=us-east-1&consistent=true"
}

// cosmosURI is the container "sessions" of account.
func cosmosURI(account *cosmostest.Account) string {
	return "cosmos://" + strings.TrimPrefix(account.Endpoint(), "http://") + "test/sessions?tls=false"
}

// table is a keyspace in the table "sessions", which it makes.
func table(t *testing.T, dialect sql.Dialect, driver, dsn, uri string) keyspace {
	t.Helper()
	db := must(stdsql.Open(driver, dsn))(t)
	t.Cleanup(func() { _ = db.Close() })
	d := must(sql.New[any](db, dialect, "sessions", nil))(t)
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	insert := "INSERT INTO sessions (id, value) VALUES (?, ?)"
	if dialect == sql.PostgreSQL {
		insert = "INSERT INTO sessions (id, value) VALUES ($1, $2)"
	}
	return keyspace{uri, func(key, value string) error {
		_, err := db.Exec(insert, key, value)
		return err
	}}
}

// All that the command does, on every kind of store.
func TestStores(t *testing.T) {
	covered := make(map[string]bool)
	for name, open := range keyspaces {
		covered[name] = true
		t.Run(name, func(t *testing.T) {
			k := open(t)
			for i := range 40 {
				if err := k.add(fmt.Sprint("user:", i), fmt.Sprintf(`{"n": %d}`, i)); err != nil {
					t.Fatal(err)
				}
			}
			out, _ := command(t, 0, "audit", k.uri, "--policy", thirty)
			contains(t, out, "40 records looked at", "no created at 40", "alive for ever unless read 40")
			out, _ = command(t, 0, "inspect", k.uri, "user:7", "--policy", thirty, "--value")
			contains(t, out, "alive: it was not adopted yet", "7")
			command(t, exitDead, "inspect", k.uri, "nobody", "--policy", thirty)
			out, _ = command(t, 0, "mend", k.uri)
			contains(t, out, "well 40")
			out, _ = command(t, 0, "adopt", k.uri, "--policy", thirty, "--apply", "--no-undo", "--writes", "0", "--json")
			var report upkeep.Report
			if err := json.Unmarshal([]byte(out), &report); err != nil || report.Counts["adopted"] != 40 || !report.Done {
				t.Errorf("%v: %s", err, out)
			}
			out, _ = command(t, 0, "audit", k.uri, "--policy", thirty)
			contains(t, out, "slides 40")
			dying, _ := command(t, 0, "dying", k.uri, "--within", "100d", "--rate", "0")
			dies := time.Time{}
			for line := range strings.Lines(dying) {
				var k survey.DyingKey
				if err := json.Unmarshal([]byte(line), &k); err != nil || !strings.HasPrefix(k.Key, "user:") || k.CreatedAt.IsZero() || k.ExpiresAt.Before(dies) {
					t.Errorf("dies after %v: %s: %v", dies, line, err)
				}
				dies = k.ExpiresAt
			}
			if n := strings.Count(dying, "\n"); n != 40 {
				t.Errorf("%d are dying; want 40", n)
			}
			few, told := command(t, 0, "dying", k.uri, "--within", "100d", "--limit", "3")
			if n := strings.Count(few, "\n"); n != 3 || !strings.HasPrefix(dying, few) {
				t.Errorf("the first three dying are\n%sof\n%s", few, dying)
			}
			contains(t, told, "others die by")
			out, _ = command(t, 0, "dying", k.uri, "--within", "1ms")
			if out != "" {
				t.Errorf("nobody is dying, and it prints %q", out)
			}
			out, _ = command(t, 0, "diff", k.uri, "--from-policy", thirty, "--to-policy", "idle 1d, max 2d")
			contains(t, out, "40 records looked at")
			// Adopted with created_at of long ago, they are past a cap of a millisecond.
			out, _ = command(t, 0, "reap", k.uri, "--policy", "idle 1ms, max 1ms", "--grace", "1ms", "--apply", "--writes", "0")
			contains(t, out, "removed: past their cap 40")
			out, _ = command(t, 0, "audit", k.uri, "--policy", thirty)
			contains(t, out, "0 records looked at")
			// What is adopted is held as the URI says.
			if err := k.add("user:40", "{}"); err != nil {
				t.Fatal(err)
			}
			retaining := must(url.Parse(k.uri))(t)
			q := retaining.Query()
			q.Set("retain", "30d")
			retaining.RawQuery = q.Encode()
			command(t, 0, "adopt", retaining.String(), "--policy", thirty, "--apply", "--no-undo")
			out, _ = command(t, 0, "reap", retaining.String(), "--policy", "idle 1ms, max 1ms", "--grace", "1ms", "--apply")
			contains(t, out, "dead, and retained by the store 1")
		})
	}
	for _, k := range kinds {
		if !covered[k.schemes[0]] {
			t.Errorf("%s is not tested", k.schemes[0])
		}
	}
}

// A container with records of an application's names, and others beside them.
func TestCosmosLayout(t *testing.T) {
	account := cosmostest.Start(t)
	t.Setenv("SLIDINGTTL_COSMOS_KEY", account.Key())
	opts := cosmos.Options{
		PartitionKey: []cosmos.KeyProperty{{Path: "/kind", Of: cosmos.Fixed("link")}, {Path: "/owner", Of: cosmos.Prefix("u-")}},
		ID:           cosmos.Prefix("link:"),
		CreatedAt:    "made", ExpiresAt: "ends", Version: "rev",
	}
	container := account.Container(t, must(cosmos.New[any](&azcosmos.ContainerClient{}, &opts))(t).Properties("sessions"))
	d := must(cosmos.New[map[string]any](container, &opts))(t)
	now := driver.Floor(time.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(24 * time.Hour)}
	must(d.Insert(t.Context(), "a", map[string]any{"url": "https://example.com"}, life, now))(t)
	other := azcosmos.NewPartitionKeyString("user").AppendString("u-a")
	must(container.CreateItem(t.Context(), other, []byte(`{"id": "a", "kind": "user", "owner": "u-a"}`), nil))(t)

	names := filepath.Join(t.TempDir(), "layout.json")
	err := os.WriteFile(names, []byte(`{
		"id_prefix": "link:", "partition_key": [{"path": "/kind", "fixed": "link"}, {"path": "/owner", "prefix": "u-"}],
		"created_at": "made", "expires_at": "ends", "version": "rev"
	}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := command(t, 0, "audit", cosmosURI(account), "--layout", names, "--policy", thirty)
	contains(t, out, "1 records looked at", "slides 1")
	out, _ = command(t, 0, "inspect", cosmosURI(account), "a", "--layout", names, "--policy", thirty, "--value")
	contains(t, out, "alive: neither its expiry nor its cap has come", "https://example.com")
}

// A table whose columns have names and types of the application's.
func TestLayout(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.db")
	db := must(stdsql.Open("sqlite", sqltest.SQLiteDSN(file)))(t)
	defer func() { _ = db.Close() }()
	for _, q := range []string{
		"CREATE TABLE links (code TEXT PRIMARY KEY, url TEXT, owner TEXT, made TEXT)",
		"INSERT INTO links (code, url, owner, made) VALUES ('a', 'https://example.com', 'ann', '2020-01-02 03:04:05.000'), ('b', 'https://example.org', 'bob', NULL)",
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	names := filepath.Join(t.TempDir(), "layout.json")
	err := os.WriteFile(names, []byte(`{
		"key": "code", "columns": ["url", "owner"], "sweep_at": "due",
		"created_at": "made", "created_at_type": "datetime", "expires_at": "ends", "expires_at_type": "datetime"
	}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	uri := "sqlite:" + file + "?table=links"
	out, _ := command(t, 0, "schema", uri, "--layout", names, "--grant", "app")
	contains(t, out, "-- slidingttl schema", `ADD COLUMN "ends" TEXT;`, `ON "links" ("due");`)
	must(db.Exec(out))(t)
	out, _ = command(t, 0, "schema", uri, "--layout", names)
	if out != "-- slidingttl schema\n\n" {
		t.Errorf("of a table that lacks nothing:\n%s", out)
	}
	_, errs := command(t, exitUsage, "schema", "dynamodb://sessions?region=eu-central-1")
	contains(t, errs, "SQL")
	out, _ = command(t, 0, "audit", uri, "--layout", names, "--policy", thirty)
	contains(t, out, "past cap 1", "no created at 1")
	command(t, 0, "adopt", uri, "--layout", names, "--policy", thirty, "--apply")
	out, _ = command(t, 0, "inspect", uri, "b", "--layout", names, "--policy", thirty, "--value")
	contains(t, out, "alive: neither its expiry nor its cap has come", "field made", "field ends", "bob")
}

// The layouts that the README shows are such as the stores take.
func TestReadmeLayouts(t *testing.T) {
	readme := string(must(os.ReadFile("README.md"))(t))
	for store, names := range map[string]any{
		"Couchbase": new(couchbaseLayout), "Cosmos DB": new(cosmosLayout), "DynamoDB": new(dynamodbLayout), "SQL": new(sqlLayout),
	} {
		_, text, _ := strings.Cut(readme, "On "+store)
		_, text, _ = strings.Cut(text, "```json\n")
		text, _, ok := strings.Cut(text, "```")
		if err := layout(text).into(names); !ok || err != nil {
			t.Errorf("on %s: %v in\n%s", store, err, text)
		}
	}
}
