package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var callsFlag = flag.Int("mcp.calls", 3000, "calls of TestReplicas")

// TestMain is the program itself, in a replica.
func TestMain(m *testing.M) {
	if os.Getenv("MCP_REPLICA") == "" {
		goleak.VerifyTestMain(m)
		return
	}
	go func() { // it ends with the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	main()
}

// counted is a driver whose calls are counted.
type counted struct {
	driver.Driver[Basket]
	reads, writes atomic.Int64
}

func (c *counted) Get(ctx context.Context, key string) (driver.Entry[Basket], error) {
	c.reads.Add(1)
	return c.Driver.Get(ctx, key)
}

func (c *counted) Insert(ctx context.Context, key string, b Basket, l driver.Life, now driver.Instant) (driver.Version, error) {
	c.writes.Add(1)
	return c.Driver.Insert(ctx, key, b, l, now)
}

func (c *counted) Replace(ctx context.Context, key string, b Basket, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	c.writes.Add(1)
	return c.Driver.Replace(ctx, key, b, was, l, now)
}

func (c *counted) Touch(ctx context.Context, key string, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	c.writes.Add(1)
	return c.Driver.Touch(ctx, key, was, l, now)
}

// runTools runs tools over a store on virtual time. ask calls a tool as a user's agent.
func runTools(t *testing.T, test func(t *testing.T, d *counted, ask func(user, tool string, args any) (string, Basket))) {
	synctest.Test(t, func(t *testing.T) {
		mem, err := memory.New[Basket](nil)
		if err != nil {
			t.Fatal(err)
		}
		defer mem.Close()
		d := &counted{Driver: mem}
		store, err := slidingttl.New(d, policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close(context.Background())
		h := handler(store)
		test(t, d, func(user, tool string, args any) (string, Basket) {
			t.Helper()
			body, err := json.Marshal(map[string]any{
				"jsonrpc": "2.0", "id": 1, "method": "tools/call",
				"params": map[string]any{"name": tool, "arguments": args, "_meta": map[string]any{
					"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
					"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "test", "version": "1"},
					"io.modelcontextprotocol/clientCapabilities": map[string]any{},
				}},
			})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(string(body)))
			for name, value := range map[string]string{
				"Authorization": "Bearer " + user + "-token", "Content-Type": "application/json",
				"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
				"Mcp-Method": "tools/call", "Mcp-Name": tool,
			} {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			var answer struct {
				Result struct {
					IsError           bool
					Content           []struct{ Text string }
					StructuredContent struct {
						Handle string `json:"basket"`
						Items  map[string]int
					}
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%d %s: %v", w.Code, w.Body, err)
			}
			if answer.Result.IsError {
				return "error: " + answer.Result.Content[0].Text, Basket{}
			}
			return answer.Result.StructuredContent.Handle, Basket{answer.Result.StructuredContent.Items}
		})
	})
}

func TestLimits(t *testing.T) {
	runTools(t, func(t *testing.T, d *counted, ask func(user, tool string, args any) (string, Basket)) {
		gone := "error: " + errGone.Error()
		open := func() handle {
			h, _ := ask("ann", "basket_open", struct{}{})
			if len(h) < 26 {
				t.Fatalf("handle %q", h)
			}
			return handle{h}
		}
		h := open()
		if _, b := ask("ann", "basket_put", item{h, "egg", 6}); b.Items["egg"] != 6 {
			t.Errorf("put: %v", b)
		}
		time.Sleep(34 * time.Minute)
		if e, _ := ask("ann", "basket_read", h); e != gone {
			t.Errorf("idle: %s", e)
		}
		h = open()
		for range 24 {
			time.Sleep(29 * time.Minute)
			if e, _ := ask("ann", "basket_read", h); e != "" {
				t.Fatalf("busy: %s", e)
			}
		}
		time.Sleep(25 * time.Minute)
		if e, _ := ask("ann", "basket_put", item{h, "egg", 6}); e != gone {
			t.Errorf("put, older than the max lifetime: %s", e)
		}
		if e, _ := ask("ann", "basket_read", h); e != gone {
			t.Errorf("read, older than the max lifetime: %s", e)
		}
	})
}

// TestCost: a call that is not due makes one read and no write, also where it is refused.
func TestCost(t *testing.T) {
	runTools(t, func(t *testing.T, d *counted, ask func(user, tool string, args any) (string, Basket)) {
		opened, _ := ask("ann", "basket_open", struct{}{})
		h := handle{opened}
		d.reads.Store(0)
		d.writes.Store(0)
		for range 100 {
			time.Sleep(time.Second)
			if e, _ := ask("ann", "basket_read", h); e != "" {
				t.Fatal(e)
			}
		}
		if r, w := d.reads.Load(), d.writes.Load(); r != 100 || w != 0 {
			t.Errorf("%d reads and %d writes of a hundred calls", r, w)
		}
		// Another principal's calls do not keep a basket alive.
		for range 100 {
			time.Sleep(time.Minute)
			if e, _ := ask("bob", "basket_read", h); !strings.HasPrefix(e, "error: ") {
				t.Fatal("bob reads ann's basket")
			}
		}
		if w := d.writes.Load(); w != 0 {
			t.Errorf("%d writes of another principal's calls", w)
		}
		if e, _ := ask("ann", "basket_read", h); e == "" {
			t.Error("another principal's calls kept the basket alive")
		}
	})
}

// TestUsersCode: what a user writes for it is at most 60 lines.
func TestUsersCode(t *testing.T) {
	b, err := os.ReadFile("baskets.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n > 60 {
		t.Errorf("baskets.go has %d lines", n)
	}
}

// TestNoPrincipal: without a good token no tool is called.
func TestNoPrincipal(t *testing.T) {
	server := httptest.NewServer(handler(nil))
	defer server.Close()
	for _, token := range []string{"", "Bearer ", "Bearer -token", "Bearer x", "Basic YW5uOmFubg=="} {
		r, err := http.NewRequest("POST", server.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"basket_open","arguments":{}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", token)
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %s", token, answer.Status)
		}
	}
}

// replica is a process of the program.
type replica struct {
	cmd   *exec.Cmd
	stdin io.Closer
	host  string
}

func startReplica(ctx context.Context, address string) (*replica, error) {
	p := &replica{cmd: exec.CommandContext(ctx, os.Args[0], "-addr", "127.0.0.1:0", "-driver", "redis", "-address", address)}
	p.cmd.Env = append(os.Environ(), "MCP_REPLICA=1")
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(err, p.kill())
	}
	where, _, _ := strings.Cut(strings.TrimPrefix(line, "listening on "), ",")
	at, err := url.Parse(where)
	if err != nil {
		return nil, errors.Join(err, p.kill())
	}
	p.host = at.Host
	return p, nil
}

// kill is kill -9.
func (p *replica) kill() error {
	err := p.cmd.Process.Kill()
	if _, ended := errors.AsType[*exec.ExitError](p.cmd.Wait()); !ended {
		err = errors.Join(err, errors.New("the replica was not killed"))
	}
	_ = p.stdin.Close()
	return err
}

// balancer sends each request to another replica. A request that it had begun to send is not sent again.
type balancer struct {
	http.Transport
	hosts [3]atomic.Value
	next  atomic.Uint64
}

func (b *balancer) as(user string) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+user+"-token")
		r.URL.Host = b.hosts[b.next.Add(1)%3].Load().(string)
		r.Host = r.URL.Host
		return b.Transport.RoundTrip(r)
	})}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// agent is a client that calls again where no answer came.
type agent struct {
	user    string
	client  *http.Client
	session *mcp.ClientSession
	calls   *atomic.Int64
	again   *atomic.Int64
}

// mostAttempts is more than the replicas that are killed.
const mostAttempts = 100

// call returns what a tool said; refused: it said that there is no such basket.
func (a *agent) call(ctx context.Context, tool string, args any, into any) (refused bool, err error) {
	a.calls.Add(1)
	for attempt := 0; ; attempt++ {
		if a.session == nil {
			client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
			a.session, err = client.Connect(ctx, &mcp.StreamableClientTransport{
				Endpoint: "http://replicas/", HTTPClient: a.client, MaxRetries: -1, DisableStandaloneSSE: true,
			}, nil)
		}
		var result *mcp.CallToolResult
		if err == nil {
			result, err = a.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
		}
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil && attempt == mostAttempts:
			return false, err
		case err != nil:
			a.again.Add(1)
			a.close()
			err = nil
		case result.IsError:
			text, _ := result.Content[0].(*mcp.TextContent)
			if text != nil && text.Text == errGone.Error() {
				return true, nil
			}
			return false, fmt.Errorf("%s: %v", tool, text)
		default:
			b, err := json.Marshal(result.StructuredContent)
			if err != nil {
				return false, err
			}
			return false, json.Unmarshal(b, into)
		}
	}
}

func (a *agent) close() {
	if a.session != nil {
		_ = a.session.Close()
		a.session = nil
	}
}

// TestReplicas: three replicas are killed in turn while agents call them. Nothing that was answered is
// lost, and no basket opens to another principal.
func TestReplicas(t *testing.T) {
	const agents, baskets = 6, 4
	total := int64(*callsFlag)
	kills := 9 + total/2000
	server := redistest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(total)*20*time.Millisecond)
	defer cancel()
	b := &balancer{}
	defer b.CloseIdleConnections()
	var replicas [3]*replica
	for i := range replicas {
		var err error
		if replicas[i], err = startReplica(ctx, "redis://"+server.Addr); err != nil {
			t.Fatal(err)
		}
		b.hosts[i].Store(replicas[i].host)
	}
	var calls, again, lost, accepted, foreign, killed atomic.Int64
	var handles [agents][baskets]atomic.Pointer[handle]
	var done atomic.Bool
	var work, killer sync.WaitGroup
	killer.Go(func() {
		for n := int64(1); !done.Load() && ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if n > kills || calls.Load() < n*total/(kills+1) {
				continue
			}
			i := n % 3
			if err := replicas[i].kill(); err != nil {
				t.Error(err)
			}
			killed.Add(1)
			next, err := startReplica(ctx, "redis://"+server.Addr)
			if err != nil {
				t.Error(err)
				return
			}
			replicas[i] = next
			b.hosts[i].Store(next.host)
			n++
		}
	})
	for i := range agents {
		work.Go(func() {
			a := &agent{user: fmt.Sprint("user", i), calls: &calls, again: &again}
			a.client = b.as(a.user)
			defer a.close()
			random := rand.New(rand.NewPCG(36, uint64(i)))
			var put [baskets]map[string]int
			for j := range baskets {
				h := &handle{}
				if _, err := a.call(ctx, "basket_open", struct{}{}, h); err != nil {
					t.Error(err)
					return
				}
				put[j] = map[string]int{}
				handles[i][j].Store(h)
			}
			for n := 1; calls.Load() < total; n++ {
				j, name := random.IntN(baskets), string(rune('a'+random.IntN(5)))
				h, other := handles[i][j].Load(), handles[(i+1+random.IntN(agents-1))%agents][j].Load()
				var got Basket
				var refused bool
				var err error
				own := true
				switch which := random.IntN(10); {
				case which < 2 && other != nil:
					own = false
					foreign.Add(1)
					if which == 0 {
						refused, err = a.call(ctx, "basket_read", other, &got)
					} else {
						refused, err = a.call(ctx, "basket_put", item{*other, "stolen", n}, &got)
					}
					if err == nil && !refused {
						accepted.Add(1)
					}
				case which < 5:
					refused, err = a.call(ctx, "basket_put", item{*h, name, n}, &got)
					put[j][name] = n
				default:
					refused, err = a.call(ctx, "basket_read", h, &got)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if own && (refused || fmt.Sprint(got.Items) != fmt.Sprint(put[j])) {
					lost.Add(1)
				}
			}
			for j := range baskets {
				var got Basket
				if refused, err := a.call(ctx, "basket_read", handles[i][j].Load(), &got); err != nil || refused || fmt.Sprint(got.Items) != fmt.Sprint(put[j]) {
					t.Errorf("%v, refused %v: %v, want %v", err, refused, got.Items, put[j])
					lost.Add(1)
				}
			}
		})
	}
	work.Wait()
	done.Store(true)
	killer.Wait()
	for _, p := range replicas {
		if err := p.kill(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d calls, %d of them made again, %d replicas killed: %d lost, %d of %d accepted from another principal",
		calls.Load(), again.Load(), killed.Load(), lost.Load(), accepted.Load(), foreign.Load())
	if lost.Load() != 0 || accepted.Load() != 0 || killed.Load() != kills || foreign.Load() == 0 {
		t.Error("want none lost, none accepted, and all kills done")
	}
}

// TestCostOnRedis: what a call that is not due costs a server that was asked.
func TestCostOnRedis(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	d, err := redis.New[Basket](client, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := slidingttl.New(d, policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(context.Background())
	site := httptest.NewServer(handler(store))
	defer site.Close()
	host, _ := url.Parse(site.URL)
	b := &balancer{}
	defer b.CloseIdleConnections()
	for i := range b.hosts {
		b.hosts[i].Store(host.Host)
	}
	a := &agent{user: "ann", client: b.as("ann"), calls: &atomic.Int64{}, again: &atomic.Int64{}}
	defer a.close()
	var h handle
	if _, err := a.call(t.Context(), "basket_open", struct{}{}, &h); err != nil {
		t.Fatal(err)
	}
	var got Basket
	read := func() {
		if refused, err := a.call(t.Context(), "basket_read", h, &got); err != nil || refused {
			t.Fatal(refused, err)
		}
	}
	read()
	if version := a.session.InitializeResult().ProtocolVersion; version != "2026-07-28" {
		t.Errorf("protocol version %s", version)
	}
	// The server's counters: commands that it was sent, and changes that it has made.
	stat := func(name string) (n int) {
		text, err := client.Do(t.Context(), client.B().Info().Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(text, name+":")
		if _, err := fmt.Sscan(rest, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	changes, calls := stat("rdb_changes_since_last_save"), stat("total_commands_processed")
	for range 100 {
		read()
	}
	if n := stat("rdb_changes_since_last_save") - changes; n != 0 {
		t.Errorf("%d changes by a hundred reads", n)
	}
	if n := stat("total_commands_processed") - calls; n > 110 { // some are the client's own, and INFO
		t.Errorf("%d commands for a hundred reads", n)
	}
}
