package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/slidingttl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "a-session-token"

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// log is one that many write to.
type log struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running is a service in use.
type running struct {
	t     *testing.T
	s     *service
	log   *log
	spans string
	end   func() error
}

// serve starts a service, which stops when the test ends.
func serve(t *testing.T, choice backend.Choice, policies string) *running {
	t.Helper()
	r := &running{t: t, log: &log{}, spans: filepath.Join(t.TempDir(), "spans.json")}
	var err error
	r.s, err = start(t.Context(), config{
		addr: "localhost:0", admin: "localhost:0", policies: policies, spans: r.spans, follow: 10 * time.Millisecond, backend: choice,
		log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	ok(t, err)
	r.end = sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return r.s.stop(ctx)
	})
	t.Cleanup(func() {
		ok(t, r.end())
		http.DefaultClient.CloseIdleConnections()
	})
	return r
}

// do returns the status and the body of the answer; 0 where there is none.
func do(method, address, path, body string) (int, string) {
	req, err := http.NewRequest(method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	content, _ := io.ReadAll(res.Body)
	return res.StatusCode, strings.TrimSpace(string(content))
}

func (r *running) do(method, path, body string) (int, string) {
	return do(method, r.s.public.address(), path, body)
}

func (r *running) ask(path string) (int, string) {
	return do(http.MethodGet, r.s.admin.address(), path, "")
}

func (r *running) want(status int, method, path, body string) string {
	r.t.Helper()
	got, answer := r.do(method, path, body)
	if got != status {
		r.t.Errorf("%s %s: %d %s; want %d", method, path, got, answer, status)
	}
	return answer
}

// children are the spans that have a parent, as "parent > child", and all as text.
func (r *running) children() (found map[string]bool, text string) {
	r.t.Helper()
	content, err := os.ReadFile(r.spans)
	ok(r.t, err)
	type span struct {
		Name                string
		SpanContext, Parent struct{ SpanID string }
	}
	var all []span
	names := make(map[string]string)
	for d := json.NewDecoder(bytes.NewReader(content)); d.More(); {
		var s span
		ok(r.t, d.Decode(&s))
		all = append(all, s)
		names[s.SpanContext.SpanID] = s.Name
	}
	found = make(map[string]bool)
	for _, s := range all {
		found[names[s.Parent.SpanID]+" > "+s.Name] = true
	}
	return found, string(content)
}

// until asks again and again, for what takes its time.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !met() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Every driver that needs nothing installed, and one that does.
func TestService(t *testing.T) {
	for name, system := range map[string]string{
		"memory": "memory", "sqlite": "sqlite", "couchbase": "couchbase", "cosmos": "azure.cosmosdb", "redis": "redis",
	} {
		t.Run(name, func(t *testing.T) {
			r := serve(t, backend.Choice{Driver: name}, "")
			path := "/profiles/" + secret
			r.want(http.StatusNotFound, "GET", path, "")
			r.want(http.StatusBadRequest, "PUT", path, "not json")
			r.want(http.StatusNoContent, "PUT", path, `{"name":"ann"}`)
			if got := r.want(http.StatusOK, "GET", path, ""); got != `{"name":"ann"}` {
				t.Errorf("GET: %s", got)
			}
			if home := r.want(http.StatusOK, "GET", "/", ""); !strings.Contains(home, "http://"+r.s.public.address()+"/profiles/") {
				t.Errorf("the page at / is %s", home)
			}
			if status, home := r.ask("/"); status != http.StatusOK || !strings.Contains(home, "/readyz") {
				t.Errorf("the operators' page is %d %s", status, home)
			}
			if status, answer := r.ask("/readyz"); status != http.StatusOK {
				t.Errorf("/readyz: %d %s", status, answer)
			}
			r.want(http.StatusNoContent, "DELETE", path, "")
			r.want(http.StatusNotFound, "GET", path, "")
			r.want(http.StatusNotFound, "GET", "/elsewhere/"+secret, "")
			_, metrics := r.ask("/metrics")
			for _, line := range []string{
				`slidingttl_reads_total{outcome="hit",store="profiles"} 1`,
				`slidingttl_reads_total{outcome="miss",store="profiles"} 2`,
				`db_client_operation_duration_seconds_count{db_collection_name="profiles",db_operation_name="delete",db_system_name="` + system + `"} 1`,
			} {
				if !strings.Contains(metrics, line) {
					t.Errorf("/metrics has no line %s", line)
				}
			}
			ok(t, r.end())
			if strings.Contains(metrics, secret) || strings.Contains(r.log.String(), secret) {
				t.Errorf("the key is in the metrics or the log:\n%s", r.log)
			}
			if n := strings.Count(r.log.String(), `route="GET /profiles/{id}"`); n != 3 {
				t.Errorf("%d GETs in the log, want 3:\n%s", n, r.log)
			}
		})
	}
	if _, err := start(t.Context(), config{backend: backend.Choice{Driver: "tape"}, log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("started on an unknown driver")
	}
	if _, err := start(t.Context(), config{addr: "nowhere:x", backend: backend.Choice{Driver: "memory"}, log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("started at an address that is none")
	}
}

// A policy that is written to the file holds soon after; one that is wrong never does.
func TestPolicyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.json")
	write := func(content string) {
		ok(t, os.WriteFile(path+".new", []byte(content), 0o600))
		ok(t, os.Rename(path+".new", path))
	}
	write(`{"profiles": {"idle_grace": "1h", "max_lifetime": "2h"}}`)
	r := serve(t, backend.Choice{Driver: "memory"}, path)
	r.want(http.StatusNoContent, "PUT", "/profiles/1", `{"name":"ann"}`)
	left := func() time.Duration {
		e, err := r.s.store.Peek(t.Context(), "1")
		ok(t, err)
		return e.ExpiresAt.Sub(e.CreatedAt)
	}
	if left() < time.Hour {
		t.Errorf("a life of %v by the first policy", left())
	}
	write(`{"profiles": {"idle_grace": "10m", "max_lifetime": "20m"}}`)
	until(t, "the policy is the second", func() bool { return r.s.store.Policy().IdleGrace == 10*time.Minute })
	r.want(http.StatusOK, "GET", "/profiles/1", "")
	if left() > 20*time.Minute {
		t.Errorf("a life of %v by the second policy", left())
	}
	write(`{"profiles": {"idle_grace": "10m", "max_lifetime": "5m"}}`)
	until(t, "the log says that the third is none", func() bool {
		return strings.Contains(r.log.String(), "must be at most Policy.MaxLifetime")
	})
	if _, metrics := r.ask("/metrics"); !strings.Contains(metrics, `slidingttl_policy_reload_successful{store="profiles"} 0`) {
		t.Errorf("no metric tells of the refusal:\n%s", metrics)
	}
	if p := r.s.store.Policy(); p.MaxLifetime != 20*time.Minute {
		t.Errorf("the policy is %v", p)
	}
	if !strings.Contains(r.log.String(), `msg="policy changes"`) {
		t.Errorf("the log does not tell of the change:\n%s", r.log)
	}
}

// A service whose store is gone is alive, and not ready.
func TestReadiness(t *testing.T) {
	server, err := redistest.Run(t.Context())
	ok(t, err)
	defer server.Close()
	r := serve(t, backend.Choice{Driver: "redis", Address: "redis://" + server.Addr}, "")
	if status, answer := r.ask("/readyz"); status != http.StatusOK {
		t.Fatalf("/readyz: %d %s", status, answer)
	}
	ok(t, server.Close())
	if status, _ := r.ask("/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz without a store: %d", status)
	}
	if status, _ := r.ask("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz without a store: %d", status)
	}
	r.want(http.StatusServiceUnavailable, "GET", "/profiles/"+secret, "")
	if log := r.log.String(); !strings.Contains(log, "request failed") || strings.Contains(log, secret) {
		t.Errorf("the log:\n%s", log)
	}
}

// A shutdown answers what it has accepted, and shows it, before anything is taken away.
func TestShutdown(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	r := serve(t, backend.Choice{Driver: "redis", Address: "redis://" + server.Addr}, "")
	r.want(http.StatusNotFound, "GET", "/profiles/"+secret, "")

	pauseRedis(t, admin, time.Minute)
	answered := make(chan string, 1)
	go func() {
		status, body := r.do("PUT", "/profiles/"+secret, `{"name":"bob"}`)
		answered <- fmt.Sprint(status, " ", body)
	}()
	until(t, "the request is at Redis", func() bool { return blocked(t, admin) })
	stopped := make(chan error, 1)
	go func() { stopped <- r.end() }()
	until(t, "nobody accepts", func() bool {
		status, _ := r.do("GET", "/profiles/other", "")
		return status == 0
	})
	if status, answer := r.ask("/readyz"); status != http.StatusServiceUnavailable || answer != "shutting down" {
		t.Errorf("/readyz during the shutdown: %d %s", status, answer)
	}
	if status, _ := r.ask("/metrics"); status != http.StatusOK {
		t.Errorf("/metrics during the shutdown: %d", status)
	}
	select {
	case err := <-stopped:
		t.Fatalf("it stopped with a request under way: %v", err)
	default:
	}
	resumeRedis(t, admin)
	if got := <-answered; got != "204 " {
		t.Errorf("the request under way was answered %s", got)
	}
	ok(t, <-stopped)
	got, text := r.children()
	for _, want := range []string{"GET /profiles/{id} > get profiles", "PUT /profiles/{id} > overwrite profiles"} {
		if !got[want] {
			t.Errorf("no span %s among those that were sent: %v", want, got)
		}
	}
	if strings.Contains(text, secret) {
		t.Error("the key is in a span")
	}
}

// A shutdown carries out the touches that wait, before the driver is taken away.
func TestShutdownDrains(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	policies := filepath.Join(t.TempDir(), "policies.json")
	ok(t, os.WriteFile(policies, []byte(quick), 0o600))
	r := serve(t, backend.Choice{Driver: "redis", Address: "redis://" + server.Addr}, policies)
	r.want(http.StatusNoContent, "PUT", "/profiles/"+secret, `{"name":"ann"}`)
	writable(t, admin, false)
	until(t, "a touch waits", func() bool {
		r.want(http.StatusOK, "GET", "/profiles/"+secret, "")
		return r.s.store.Stats().Pending > 0
	})
	written := r.s.store.Stats().Touched
	writable(t, admin, true)
	ok(t, r.end())
	if st := r.s.store.Stats(); st.Pending != 0 || st.Touched <= written {
		t.Errorf("after the shutdown: %+v, and before it %d touches were written", st, written)
	}
	if _, err := r.s.store.Get(t.Context(), secret); !errors.Is(err, slidingttl.ErrClosed) {
		t.Errorf("after the shutdown the store answers %v", err)
	}
}

// quick is a file by which a touch is due every tenth of a second.
const quick = `{"profiles": {"idle_grace": "1m", "max_lifetime": "1h", "slack": "100ms"}}`

// writable has Redis take writes, or refuse them as a primary does that has lost its
// replicas; reads go on.
func writable(t *testing.T, c rueidis.Client, yes bool) {
	t.Helper()
	least := "1"
	if yes {
		least = "0"
	}
	ok(t, c.Do(context.Background(), c.B().ConfigSet().ParameterValue().ParameterValue("min-replicas-to-write", least).Build()).Error())
}

// A shutdown that takes too long gives up, and says what.
func TestShutdownGivesUp(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	r := serve(t, backend.Choice{Driver: "redis", Address: "redis://" + server.Addr}, "")
	pauseRedis(t, admin, time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.do("PUT", "/profiles/"+secret, `{"name":"ann"}`)
	}()
	until(t, "the request is at Redis", func() bool { return blocked(t, admin) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := r.s.stop(ctx)
	r.end = func() error { return nil }
	if err == nil || !strings.Contains(err.Error(), "deadline") || strings.Contains(err.Error(), secret) {
		t.Errorf("it stopped with %v", err)
	}
	resumeRedis(t, admin)
	<-done
}

// pauseRedis has Redis hold back all that may write.
func pauseRedis(t *testing.T, c rueidis.Client, d time.Duration) {
	t.Helper()
	ok(t, c.Do(context.Background(), c.B().ClientPause().Timeout(d.Milliseconds()).Write().Build()).Error())
}

func resumeRedis(t *testing.T, c rueidis.Client) {
	t.Helper()
	ok(t, c.Do(context.Background(), c.B().ClientUnpause().Build()).Error())
}

// blocked reports whether Redis holds back a client's command.
func blocked(t *testing.T, c rueidis.Client) bool {
	t.Helper()
	clients, err := c.Do(context.Background(), c.B().ClientList().Build()).ToString()
	ok(t, err)
	return strings.Contains(clients, "flags=b")
}
