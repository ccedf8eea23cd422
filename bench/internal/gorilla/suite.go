// Package gorilla measures what a program on gorilla/sessions writes to keep its sessions alive:
// gorillastore beside redistore, under the same handlers, each on a redis-server of its own.
package gorilla

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/boj/redistore"
	"github.com/gomodule/redigo/redis"
	gorilla "github.com/gorilla/sessions"
	"github.com/redis/rueidis"

	ownredis "github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/middleware/gorillastore"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

const (
	suiteName = "gorilla"
	own       = "gorillastore"
	other     = "redistore"
	cookie    = "session"

	// Time is 600 times as fast as for a site with an idle timeout of 30 minutes, a slack of 3, and a
	// request of each visitor every 6 seconds.
	idleTimeout = 3 * time.Second
	slack       = idleTimeout / 10
	every       = 10 * time.Millisecond
	visitors    = 16
)

// Suite measures in this process, for it counts what the servers were asked to write.
func Suite() runner.Suite { return runner.Suite{Name: suiteName, Run: measure} }

// rival is a store of gorilla, and the server below it.
type rival struct {
	store gorilla.Store
	close func() error
}

var rivals = []struct {
	name string
	open func(address string) (rival, error)
}{{own, openOwn}, {other, openOther}}

func openOwn(address string) (r rival, err error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true})
	if err != nil {
		return r, err
	}
	r.close = func() error { client.Close(); return nil }
	d, err := ownredis.New[session.Record](client, nil)
	if err != nil {
		return r, errors.Join(err, r.close())
	}
	store, err := gorillastore.New(d, &gorillastore.Options{Sessions: session.Options{
		Policy: slidingttl.Policy{IdleGrace: idleTimeout, MaxLifetime: time.Hour, Slack: slack},
	}})
	if err != nil {
		return r, errors.Join(err, r.close())
	}
	r.store, r.close = store, func() error {
		err := store.Sessions().Close(context.Background())
		client.Close()
		return err
	}
	return r, nil
}

func openOther(address string) (r rival, err error) {
	pool := &redis.Pool{MaxIdle: visitors, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address) }}
	store, err := redistore.NewRediStoreWithPool(pool, []byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		return r, errors.Join(err, pool.Close())
	}
	store.SetMaxAge(int(idleTimeout / time.Second))
	return rival{store, store.Close}, nil
}

// site has the handlers of a program whose sessions slide: each request saves.
func site(store gorilla.Store) http.Handler {
	serve := func(change func(*gorilla.Session) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			s, err := store.Get(r, cookie)
			if err == nil {
				err = change(s)
			}
			if err == nil {
				err = s.Save(r, w)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/login", serve(func(s *gorilla.Session) error { s.Values["user"] = "ann@example.com"; return nil }))
	mux.HandleFunc("/", serve(func(s *gorilla.Session) error {
		if s.Values["user"] != "ann@example.com" {
			return errors.New("the session has ended")
		}
		return nil
	}))
	return mux
}

// visit logs in, and then asks for a page in every interval until the time is over.
func visit(site http.Handler, length time.Duration, begun *sync.WaitGroup, start <-chan struct{}) (reads int, err error) {
	var has string // its cookie
	ask := func(path string) error {
		r, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
		r.Header.Set("Cookie", has)
		if site.ServeHTTP(w, r); w.Code != http.StatusOK {
			return fmt.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if given := w.Header().Get("Set-Cookie"); given != "" {
			has, _, _ = strings.Cut(given, ";")
		}
		return nil
	}
	err = ask("/login")
	begun.Done()
	if <-start; err != nil {
		return 0, err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for end := time.Now().Add(length); time.Now().Before(end); <-tick.C {
		if err := ask("/"); err != nil {
			return reads, err
		}
		reads++
	}
	return reads, nil
}

// writes returns how many commands have set an expiry, as the server counts them.
func writes(address string) (sum int, err error) {
	c, err := redis.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	info, err := redis.String(c.Do("INFO", "commandstats"))
	for line := range strings.Lines(info) {
		for _, name := range []string{"set", "setex", "psetex", "expire", "pexpire", "pexpireat"} {
			var n int
			if _, err := fmt.Sscanf(line, "cmdstat_"+name+":calls=%d", &n); err == nil {
				sum += n
			}
		}
	}
	return sum, err
}

// turn returns how many writes the server makes for a read.
func turn(store gorilla.Store, server *redistest.Server, length time.Duration) (runner.Sample, error) {
	site := site(store)
	var begun, done sync.WaitGroup
	begun.Add(visitors)
	start := make(chan struct{})
	reads, errs := make([]int, visitors), make([]error, visitors)
	for i := range visitors {
		done.Go(func() { reads[i], errs[i] = visit(site, length, &begun, start) })
	}
	begun.Wait()
	before, err := writes(server.Addr)
	close(start)
	done.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	after, err := writes(server.Addr)
	if err != nil {
		return nil, err
	}
	sum := 0
	for _, n := range reads {
		sum += n
	}
	return runner.Sample{"writes": float64(after-before) / float64(sum), "reads": float64(sum)}, nil
}

func measure(p runner.Plan) (report runner.Report, err error) {
	report = runner.Report{
		Title: "A program on gorilla/sessions whose sessions slide",
		Text: fmt.Sprintf(`%d visitors, each with a request every %v that reads its session and saves it, which is how a session
stays alive on redistore. Idle timeout %v, for gorillastore with a slack of %v. Each store has a redis-server of its own. Writes are
the commands by which the server has set an expiry; gorillastore's are in a script, which stores that expiry beside the value too.`, visitors, every, idleTimeout, slack),
	}
	servers := make([]*redistest.Server, len(rivals))
	stores := make([]rival, len(rivals))
	for i, r := range rivals {
		if servers[i], err = redistest.Run(context.Background()); err != nil {
			if strings.Contains(err.Error(), "not on the PATH") {
				p.Log("NOT RUN: %v", err)
				report.Text = "Not run: Redis is not installed."
				return report, nil
			}
			return report, err
		}
		defer func() { err = errors.Join(err, servers[i].Close()) }()
		if stores[i], err = r.open(servers[i].Addr); err != nil {
			return report, err
		}
		defer func() { err = errors.Join(err, stores[i].close()) }()
	}
	results := new(runner.Results)
	for round := range runner.Pick(p, 5, 1) {
		for _, i := range runner.Shuffled([]int{0, 1}, round) {
			sample, err := turn(stores[i].store, servers[i], runner.Pick(p, 6*time.Second, 3*time.Second))
			if err != nil {
				return report, fmt.Errorf("%s: %w", rivals[i].name, err)
			}
			p.Log("%s: %.4f writes a read, of %.0f", rivals[i].name, sample["writes"], sample["reads"])
			results.Add(rivals[i].name, suiteName, sample)
		}
	}
	t := runner.Table{Title: "Writes for a read", Head: []string{"store", "writes a read"}}
	for _, r := range rivals {
		t.Rows = append(t.Rows, []string{r.name, fmt.Sprintf("%.4f", results.Median(r.name, suiteName, "writes"))})
	}
	report.Tables = []runner.Table{t}
	report.Figures = []runner.Figure{
		{Name: "gorilla/writes-per-read", Value: results.Median(own, suiteName, "writes"), Op: "<=", Bound: 0.04},
		{Name: "gorilla/redistore/writes-per-read", Value: results.Median(other, suiteName, "writes")},
	}
	return report, nil
}
