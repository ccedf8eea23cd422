//go:build linux

package main

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/internal/hostile"
)

// rawStores are the stores of the judge. Each call opens one that no other trial uses.
func rawStores(t *testing.T) map[string]func(*testing.T, string) *rawStore {
	return map[string]func(*testing.T, string) *rawStore{
		"redis":    rawRedis,
		"postgres": rawPostgres,
		"sqlite":   rawSQLite,
		"dynamodb": rawDynamoDB(t),
	}
}

// steps counts what a command does, and tells whoever waits for a number of them.
type steps struct {
	mu    sync.Mutex // guards the rest
	n     int
	waits map[chan struct{}]int
}

func (s *steps) one() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	for c, n := range s.waits {
		if s.n >= n {
			close(c)
			delete(s.waits, c)
		}
	}
}

func (s *steps) after(n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits == nil {
		s.waits = make(map[chan struct{}]int)
	}
	c := make(chan struct{})
	s.waits[c] = s.n + n
	return c
}

// wire is a listener that forwards to a server, and breaks.
type wire struct {
	steps
	net.Listener

	state   sync.Mutex // guards the rest
	to      func() (net.Conn, error)
	refuses bool
	open    chan struct{} // closed: answers pass
	links   map[net.Conn]bool
}

func newWire(t *testing.T, to func() (net.Conn, error)) *wire {
	t.Helper()
	w := &wire{Listener: must(net.Listen("tcp", "127.0.0.1:0"))(t), to: to, open: make(chan struct{}), links: make(map[net.Conn]bool)}
	close(w.open)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := w.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.link(near) })
		}
	})
	t.Cleanup(func() {
		_ = w.Listener.Close()
		w.drop()
		all.Wait()
	})
	return w
}

func (w *wire) link(near net.Conn) {
	defer func() { _ = near.Close() }()
	w.state.Lock()
	to, refuses := w.to, w.refuses
	w.state.Unlock()
	if refuses {
		return
	}
	far, err := to()
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	w.state.Lock()
	w.links[near] = true
	w.state.Unlock()
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := far.Read(buffer)
		w.one()
		w.state.Lock()
		open, linked := w.open, w.links[near]
		w.state.Unlock()
		<-open
		if err != nil || !linked {
			break
		}
		if _, err := near.Write(buffer[:n]); err != nil {
			break
		}
	}
	w.state.Lock()
	delete(w.links, near)
	w.state.Unlock()
}

// drop closes all connections.
func (w *wire) drop() {
	w.state.Lock()
	defer w.state.Unlock()
	for c := range w.links {
		_ = c.Close()
		delete(w.links, c)
	}
}

func (w *wire) cut() (heal func()) {
	w.set(func() { w.refuses = true })
	w.drop()
	return func() { w.set(func() { w.refuses = false }) }
}

func (w *wire) stall() (heal func()) {
	gate := make(chan struct{})
	w.set(func() { w.open = gate })
	return func() { close(gate) }
}

// redirect sends what comes to another server.
func (w *wire) redirect(to func() (net.Conn, error)) (back func()) {
	was := w.to
	w.set(func() { w.to = to })
	w.drop()
	return func() {
		w.set(func() { w.to = was })
		w.drop()
	}
}

func (w *wire) set(change func()) {
	w.state.Lock()
	defer w.state.Unlock()
	change()
}

func rawRedis(t *testing.T, fault string) *rawStore {
	begin := func() (*redistest.Server, rueidis.Client) {
		server := redistest.StartDurable(t)
		client := server.Client(t)
		if fault != "revoke" {
			return server, client
		}
		must(client.Do(t.Context(), client.B().Arbitrary("ACL", "SETUSER", "admin", "on", ">x", "~*", "&*", "+@all").Build()).ToString())(t)
		o := server.Option()
		o.Username, o.Password = "admin", "x"
		return server, redistest.NewClient(t, o)
	}
	dial := func(s *redistest.Server) func() (net.Conn, error) {
		return func() (net.Conn, error) { return net.Dial("tcp", s.Addr) }
	}
	server, client := begin()
	w := newWire(t, dial(server))
	do := func(words ...string) { must(client.Do(t.Context(), client.B().Arbitrary(words...).Build()).ToAny())(t) }
	s := &rawStore{uri: "redis://" + w.Addr().String() + "?prefix=app:", records: 1000, limits: hostile.Limits{Value: 1 << 20}, after: w.after, cut: w.cut, stall: w.stall, restarts: true}
	s.load = func(ctx context.Context, r hostile.Record) error {
		key, value := "app:"+r.Key, strings.Repeat("v", max(r.Size, 2))
		if r.Alien {
			key = "another:" + r.Key
		}
		if r.CreatedAt != 0 && r.CreatedAt > 0 && r.CreatedAt < 1e15 && !r.Guarded && strings.HasPrefix(r.Name, "created") {
			value = fmt.Sprintf("\x00sl1 %015d %015d %016x %s", r.CreatedAt, max(r.ExpiresAt.UnixMilli(), 0), 7, value)
		}
		return client.Do(ctx, client.B().Set().Key(key).Value(value).PxatMillisecondsTimestamp(r.ExpiresAt.UnixMilli()).Build()).Error()
	}
	s.snapshot = func(t testing.TB) map[string]held {
		found := make(map[string]held)
		keys := must(client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice())(t)
		cs := make(rueidis.Commands, 0, 2*len(keys))
		for _, key := range keys {
			cs = append(cs, client.B().Get().Key(key).Build(), client.B().Pexpiretime().Key(key).Build())
		}
		answers := client.DoMulti(t.Context(), cs...)
		for i, key := range keys {
			value := must(answers[2*i].ToString())(t)
			found[strings.TrimPrefix(key, "app:")] = held{strings.HasPrefix(value, "\x00sl1 "), value + fmt.Sprint(must(answers[2*i+1].AsInt64())(t))}
		}
		return found
	}
	s.restart = func(t testing.TB) { server.Restart(t) }
	s.revoke = func(testing.TB) func() {
		do("ACL", "SETUSER", "default", "-@write")
		return func() { do("ACL", "SETUSER", "default", "+@all") }
	}
	s.another = func(t testing.TB) (string, func()) {
		was := client
		var second *redistest.Server
		second, client = begin()
		if _, err := hostile.LoadAll(t.Context(), s.load, hostile.Records(time.Now(), "000-", s.limits)); err != nil {
			t.Fatal(err)
		}
		back := w.redirect(dial(second))
		return s.uri, func() {
			client = was
			back()
		}
	}
	return s
}

// rawRows is the part of a rawStore that SQL stores share. db is a pointer, because another store may
// take its place.
func (s *rawStore) rows(db **stdsql.DB, schema *string, place func(int) string) *rawStore {
	s.records, s.limits = 1000, hostile.Limits{Key: 255, Value: 1 << 20}
	s.load = func(ctx context.Context, r hostile.Record) error {
		if r.Alien {
			return errors.ErrUnsupported
		}
		var created any
		if r.CreatedAt != 0 && !r.Guarded && strings.HasPrefix(r.Name, "created") {
			created = r.CreatedAt
		}
		insert := fmt.Sprintf("INSERT INTO %ssessions (id, value, created_at, expires_at) VALUES (%s, %s, %s, %s)", *schema, place(1), place(2), place(3), place(4))
		if _, err := (*db).ExecContext(ctx, insert, r.Key, `"`+strings.Repeat("v", r.Size)+`"`, created, r.ExpiresAt.UnixMilli()); err != nil {
			return errors.ErrUnsupported
		}
		return nil
	}
	s.snapshot = func(t testing.TB) map[string]held {
		t.Helper()
		found := make(map[string]held)
		rows := must((*db).QueryContext(t.Context(), "SELECT id, value, created_at, COALESCE(expires_at, 0) FROM "+*schema+"sessions"))(t)
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var key, value string
			var created stdsql.NullInt64
			var expires int64
			if err := rows.Scan(&key, &value, &created, &expires); err != nil {
				t.Fatal(err)
			}
			found[key] = held{created.Valid, fmt.Sprint(value, created, expires)}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return found
	}
	return s
}

func rawPostgres(t *testing.T, fault string) *rawStore {
	server := sqltest.Start(t, sqltest.PostgreSQL)
	if fault == "restart" { // the others share theirs
		server = must(sqltest.Run(t.Context(), sqltest.PostgreSQL))(t)
		t.Cleanup(func() { _ = server.Close() })
		db := must(stdsql.Open("pgx", server.DSN))(t)
		execute(t, db, "ALTER DATABASE postgres SET synchronous_commit = on") // so that a crash takes nothing
		_ = db.Close()
	}
	name := fmt.Sprintf("raw_%d_%s", os.Getpid(), fault)
	admin := must(stdsql.Open("pgx", server.DSN))(t)
	t.Cleanup(func() {
		for _, role := range []string{name, name + "_b"} {
			_, _ = admin.Exec("DROP SCHEMA IF EXISTS " + role + " CASCADE")
			_, _ = admin.Exec("DROP ROLE IF EXISTS " + role)
		}
		_ = admin.Close()
	})
	create := func(role string) {
		db := must(stdsql.Open("pgx", server.DSN+" search_path="+role))(t)
		defer func() { _ = db.Close() }()
		execute(t, db, "CREATE ROLE "+role+" LOGIN")
		execute(t, db, "CREATE SCHEMA "+role)
		if err := must(sql.New[any](db, sql.PostgreSQL, "sessions", nil))(t).EnsureTable(t.Context()); err != nil {
			t.Fatal(err)
		}
		execute(t, db, `CREATE FUNCTION frozen() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'frozen'; END $$ LANGUAGE plpgsql`)
		execute(t, db, "GRANT ALL ON SCHEMA "+role+" TO "+role)
		execute(t, db, "GRANT ALL ON sessions TO "+role)
		execute(t, db, `CREATE TRIGGER guarded BEFORE UPDATE OR DELETE ON sessions FOR EACH ROW WHEN (old.id LIKE '%guarded') EXECUTE FUNCTION frozen()`)
	}
	create(name)
	words := must(url.ParseQuery(strings.ReplaceAll(server.DSN, " ", "&")))(t)
	socket := filepath.Join(words.Get("host"), ".s.PGSQL.5432")
	w := newWire(t, func() (net.Conn, error) { return net.Dial("unix", socket) })
	uri := func(role string) string {
		return "postgres://" + role + "@" + w.Addr().String() + "/postgres?sslmode=disable&table=sessions&search_path=" + url.QueryEscape(`"$user"`)
	}
	schema := name + "."
	s := (&rawStore{uri: uri(name), after: w.after, cut: w.cut, stall: w.stall}).rows(&admin, &schema, func(i int) string { return fmt.Sprint("$", i) })
	s.restart = func(t testing.TB) {
		if err := server.Crash(t.Context()); err != nil {
			t.Error(err)
		}
		for admin.PingContext(t.Context()) != nil || admin.Stats().OpenConnections > 1 { // until the broken ones are gone
			admin.SetMaxIdleConns(0)
		}
		admin.SetMaxIdleConns(2)
	}
	s.revoke = func(testing.TB) func() {
		execute(t, admin, "REVOKE UPDATE, DELETE ON "+name+".sessions FROM "+name)
		return func() { execute(t, admin, "GRANT ALL ON "+name+".sessions TO "+name) }
	}
	made := false
	s.another = func(t testing.TB) (string, func()) {
		schema = name + "_b."
		if !made {
			create(name + "_b")
			must(hostile.LoadAll(t.Context(), s.load, hostile.Records(time.Now(), "000-", hostile.Limits{})))(t)
		}
		made = true
		return uri(name + "_b"), func() { schema = name + "." }
	}
	return s
}

// rawSQLite is a file. SQLite has no server: cut is a table that is gone for a while, a restart
// is another program that holds the file and is killed.
func rawSQLite(t *testing.T, _ string) *rawStore {
	open := func(file string) *stdsql.DB {
		db := must(stdsql.Open("sqlite", sqltest.SQLiteDSN(file)+"&_pragma=synchronous(off)"))(t)
		t.Cleanup(func() { _ = db.Close() })
		if err := must(sql.New[any](db, sql.SQLite, "sessions", nil))(t).EnsureTable(t.Context()); err != nil {
			t.Fatal(err)
		}
		execute(t, db, `CREATE TRIGGER guarded BEFORE UPDATE ON sessions WHEN old.id LIKE '%guarded' BEGIN SELECT RAISE(ABORT, 'frozen'); END`)
		execute(t, db, `CREATE TRIGGER kept BEFORE DELETE ON sessions WHEN old.id LIKE '%guarded' BEGIN SELECT RAISE(ABORT, 'frozen'); END`)
		return db
	}
	files := []string{database(t), database(t)}
	db := open(files[0])
	link := filepath.Join(filepath.Dir(files[0]), "link.db")
	if err := os.Symlink(files[0], link); err != nil {
		t.Fatal(err)
	}
	var count steps
	stop, polls := make(chan struct{}), sync.WaitGroup{}
	version := must(db.Conn(t.Context()))(t)
	polls.Go(func() {
		last, tick := 0, time.NewTicker(500*time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				_ = version.Close()
				return
			case <-tick.C:
			}
			var now int
			if version.QueryRowContext(context.Background(), "PRAGMA data_version").Scan(&now) == nil && now != last {
				last = now
				count.one()
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		polls.Wait()
	})
	lock := func() func() {
		c, err := db.Conn(context.Background())
		if err == nil {
			_, err = c.ExecContext(context.Background(), "BEGIN IMMEDIATE")
		}
		if err != nil {
			t.Error(err)
		}
		return func() {
			_, _ = c.ExecContext(context.Background(), "ROLLBACK")
			_ = c.Close()
		}
	}
	schema := ""
	s := (&rawStore{uri: "sqlite:" + link + "?table=sessions", after: count.after, stall: lock}).rows(&db, &schema, func(int) string { return "?" })
	s.restart = func(testing.TB) {
		unlock := lock()
		time.Sleep(200 * time.Millisecond)
		unlock()
	}
	s.cut = func() func() {
		execute(t, db, "ALTER TABLE sessions RENAME TO away")
		return func() { execute(t, db, "ALTER TABLE away RENAME TO sessions") }
	}
	s.revoke = func(testing.TB) func() {
		for _, op := range []string{"UPDATE", "DELETE"} {
			execute(t, db, "CREATE TRIGGER no"+op+" BEFORE "+op+" ON sessions BEGIN SELECT RAISE(ABORT, 'not allowed'); END")
		}
		return func() {
			execute(t, db, "DROP TRIGGER noUPDATE")
			execute(t, db, "DROP TRIGGER noDELETE")
		}
	}
	var other *stdsql.DB
	s.another = func(t testing.TB) (string, func()) {
		first := db
		if other == nil {
			other = open(files[1])
			db = other
			must(hostile.LoadAll(t.Context(), s.load, hostile.Records(time.Now(), "000-", hostile.Limits{})))(t)
		}
		db = other
		point := func(file string) {
			if err := errors.Join(os.Remove(link), os.Symlink(file, link)); err != nil {
				t.Fatal(err)
			}
		}
		point(files[1])
		return s.uri, func() {
			db = first
			point(files[0])
		}
	}
	return s
}

// region is what a trial sees of DynamoDB: its requests are told apart by the region that they are
// signed for.
type region struct {
	steps
	state  sync.Mutex // guards the rest
	to     *dynamodbtest.Server
	before func(w http.ResponseWriter, writes bool) bool // answers in place of the server, or not; nil: it does not
	after  func()                                        // called before the server's answer is passed on
}

func rawDynamoDB(t *testing.T) func(*testing.T, string) *rawStore {
	server := dynamodbtest.Start(t)
	another := sync.OnceValue(func() *dynamodbtest.Server {
		second, err := dynamodbtest.Run(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Error(err)
			return nil
		}
		t.Cleanup(func() { _ = second.Close() })
		return second
	})
	var mu sync.Mutex
	regions := make(map[string]*region)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		scope := strings.Split(q.Header.Get("Authorization"), "/")
		mu.Lock()
		r := regions[scope[min(2, len(scope)-1)]]
		mu.Unlock()
		body, err := io.ReadAll(q.Body)
		if err != nil || r == nil {
			return
		}
		target := q.Header.Get("X-Amz-Target")
		writes := strings.Contains(target, "UpdateItem") || strings.Contains(target, "DeleteItem") || strings.Contains(target, "PutItem")
		r.state.Lock()
		before, to := r.before, r.to
		r.state.Unlock()
		if before != nil && before(w, writes) {
			return
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		httputil.NewSingleHostReverseProxy(must(url.Parse(to.Endpoint))(t)).ServeHTTP(answer, q)
		r.one()
		r.state.Lock()
		after := r.after
		r.state.Unlock()
		if after != nil {
			after()
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(proxy.Close)
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", proxy.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "any")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	return func(t *testing.T, fault string) *rawStore {
		r := &region{to: server}
		mu.Lock()
		regions["raw-"+fault+"-1"] = r
		mu.Unlock()
		client, table := server.Client(), server.Table(t)
		create := func() {
			if err := must(dynamodb.New[any](client, table, nil))(t).EnsureTable(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		create()
		set := func(before func(http.ResponseWriter, bool) bool, after func()) func() {
			swap := func(b func(http.ResponseWriter, bool) bool, a func()) {
				r.state.Lock()
				defer r.state.Unlock()
				r.before, r.after = b, a
			}
			swap(before, after)
			return func() { swap(nil, nil) }
		}
		s := &rawStore{
			uri: "dynamodb://" + table + "?consistent=true&region=raw-" + fault + "-1", records: 200, after: r.steps.after,
			layout: `{"partition_key": {"prefix": "app#"}}`, limits: hostile.Limits{Key: 2048 - 4, Value: 400<<10 - 60},
		}
		s.cut = func() func() { // the answer to what arrived is lost
			return set(nil, func() { panic(http.ErrAbortHandler) })
		}
		s.stall = func() func() {
			gate := make(chan struct{})
			heal := set(nil, func() { <-gate })
			return func() {
				heal()
				close(gate)
			}
		}
		s.restart = func(testing.TB) {
			heal := set(func(w http.ResponseWriter, _ bool) bool {
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}, nil)
			time.Sleep(500 * time.Millisecond)
			heal()
		}
		s.revoke = func(testing.TB) func() {
			return set(func(w http.ResponseWriter, writes bool) bool {
				if writes {
					w.Header().Set("Content-Type", "application/x-amz-json-1.0")
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(w, `{"__type": "com.amazon.coral.service#AccessDeniedException", "Message": "not authorized to perform: dynamodb:UpdateItem"}`)
				}
				return writes
			}, nil)
		}
		s.load = func(ctx context.Context, h hostile.Record) error {
			key := "app#" + h.Key
			if h.Alien {
				key = "another#" + h.Key
			}
			item := map[string]types.AttributeValue{
				"pk": &types.AttributeValueMemberS{Value: key}, "ttl": &types.AttributeValueMemberN{Value: fmt.Sprint(h.ExpiresAt.Unix())},
			}
			if h.CreatedAt != 0 && !h.Guarded && strings.HasPrefix(h.Name, "created") {
				item["created_at"] = &types.AttributeValueMemberN{Value: fmt.Sprint(h.CreatedAt)}
			}
			if h.Size > 0 {
				item["v"] = &types.AttributeValueMemberS{Value: strings.Repeat("v", h.Size)}
			}
			_, err := client.PutItem(ctx, &sdk.PutItemInput{TableName: &table, Item: item})
			if err != nil && strings.Contains(err.Error(), "ValidationException") {
				return errors.ErrUnsupported
			}
			return err
		}
		s.snapshot = func(t testing.TB) map[string]held {
			found := make(map[string]held)
			pages := sdk.NewScanPaginator(client, &sdk.ScanInput{TableName: &table})
			for pages.HasMorePages() {
				for _, item := range must(pages.NextPage(t.Context()))(t).Items {
					text := ""
					for _, name := range []string{"created_at", "ttl", "v"} {
						switch av := item[name].(type) {
						case *types.AttributeValueMemberS:
							text += "|" + av.Value
						case *types.AttributeValueMemberN:
							text += "|" + av.Value
						default:
							text += "|"
						}
					}
					key := strings.TrimPrefix(item["pk"].(*types.AttributeValueMemberS).Value, "app#")
					found[key] = held{item["created_at"] != nil, text}
				}
			}
			return found
		}
		made := false
		s.another = func(t testing.TB) (string, func()) {
			was := client
			second := another()
			client = second.Client()
			r.state.Lock()
			r.to = second
			r.state.Unlock()
			if !made {
				create()
				must(hostile.LoadAll(t.Context(), s.load, hostile.Records(time.Now(), "000-", hostile.Limits{})))(t)
			}
			made = true
			return s.uri, func() {
				client = was
				r.state.Lock()
				r.to = server
				r.state.Unlock()
			}
		}
		return s
	}
}
