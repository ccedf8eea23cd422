package session_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

var worldsFlag = flag.Uint64("session.worlds", 20, "worlds of TestJudge and TestJudgeOfEvictions")

// told is what the judge knows of a session.
type told struct {
	user   string
	items  []string // that an Update or a Login has put into the cart
	from   *told    // the session whose data it took along
	next   *told    // the one that replaced it
	token  string   // the last one that a client was given
	since  int      // the item before which that was
	logins []string // the logins that have begun to replace it: users, and tokens shown
	gone   bool     // a logout or a revocation has begun to end it
	ended  bool
}

// along reports whether a login of user in its place has its data, be it the first, or a later one that
// joins the first: submitted with one token.
func (k *told) along(user string) bool {
	other := func(login string) bool { return login != k.logins[0] }
	return !k.gone && (k.user == "" || k.user == user) && !slices.ContainsFunc(k.logins, other) && (k.next == nil || !k.next.ended && len(k.next.logins) == 0)
}

// want returns what the cart must have at least.
func (k *told) want() []string {
	if k == nil {
		return nil
	}
	return append(k.from.want(), k.items...)
}

// judged is a server whose clients' requests begin at any call of the store that another request makes.
type judged struct {
	*site
	random  *rand.Rand
	handler http.Handler
	checks  *session.Manager[Data] // over the same store, and renews nothing
	devices [3]string              // the tokens of the clients
	known   map[string]*told
	of      map[string]*told // by token
	depth   int              // requests under way
	hooks   atomic.Int32     // hooks under way, in which no request begins
	items   int
	log     []string

	handle func(w http.ResponseWriter, r *http.Request) // the request that begins
}

func (j *judged) note(format string, args ...any) {
	j.log = append(j.log, strings.Repeat("  ", j.depth)+fmt.Sprintf(format, args...))
}

// ask is what each hook does: it may use the manager.
func (j *judged) ask(ctx context.Context) {
	j.hooks.Add(1)
	defer j.hooks.Add(-1)
	if _, err := j.sessions.Get(ctx); err != nil && !errors.Is(err, session.ErrNoMiddleware) && !errors.Is(err, session.ErrHeaderSent) {
		j.t.Errorf("a hook asks for the session: %v", err)
	}
	if _, err := j.sessions.List(ctx, "ann"); err != nil {
		j.t.Errorf("a hook lists sessions: %v", err)
	}
}

// TestJudge has clients make random requests that overlap at any call of the store, panic, send their
// header early, and whose touches fail. Whatever the last answer gave a client opens its session
// until that is ended, and the session has all that was put into it, also by hooks that use the manager.
func TestJudge(t *testing.T) {
	defer func() { onRemote = false }()
	for seed := range *worldsFlag {
		random := rand.New(rand.NewPCG(36, seed))
		onRemote = random.IntN(2) == 0
		t.Run(fmt.Sprint(seed), func(t *testing.T) { judge(t, random) })
	}
}

// byTouch reports whether the caller runs within a touch, which reads its record on a goroutine of its own when it is
// tried again.
func byTouch() bool { return bytes.Contains(debug.Stack(), []byte("touches.(*Touches).run")) }

func judge(t *testing.T, random *rand.Rand) {
	j := &judged{random: random, known: map[string]*told{}, of: map[string]*told{}}
	o := session.Options{
		MaxPerUser: 1000,
		OnCreated:  func(ctx context.Context, _ session.Info) { j.ask(ctx) },
		OnRenewed:  func(ctx context.Context, _ session.Info) { j.ask(ctx) },
		OnReplay:   func(ctx context.Context, _ session.Info) { j.ask(ctx) },
		OnEnded:    func(ctx context.Context, _ session.Info, _ session.Reason) { j.ask(ctx) },
		OnError:    func(ctx context.Context, _ error) { j.ask(ctx) },
	}
	if random.IntN(2) == 0 {
		o.RenewEvery = time.Minute
	}
	if random.IntN(3) == 0 {
		o.Passive = func(r *http.Request) bool { j.ask(r.Context()); return r.Header.Get("Poll") != "" }
	}
	j.site = newSite(t, &o)
	j.checks = j.release(30*time.Minute, 12*hours)
	inner := j.sessions.Over(session.Bearer{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { j.handle(w, r) }))
	j.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				if p != "bug" {
					panic(p)
				}
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		inner.ServeHTTP(w, r)
	})
	j.store.onCalls(func(op, _ string) error {
		if op != "touch" && !byTouch() && j.hooks.Load() == 0 && j.depth > 0 && j.depth < 3 && random.IntN(8) == 0 {
			j.request(random.IntN(len(j.devices)))
		}
		return nil
	})
	defer j.store.onCalls(nil)
	began := j.clock.Now()
	for j.clock.Now().Sub(began) < 20*time.Minute && !t.Failed() {
		switch random.IntN(40) {
		case 0:
			j.store.failTouches(errDown)
		case 1:
			j.store.failTouches(nil)
		case 2:
			if err := j.sessions.RevokeAll(t.Context(), "ann"); err != nil {
				t.Fatal(err)
			}
			for _, k := range j.known {
				if k.user == "ann" {
					k.gone, k.ended = true, true
				}
			}
			j.note("all of ann's revoked")
		}
		j.request(random.IntN(len(j.devices)))
		j.check()
		if random.IntN(3) == 0 {
			j.clock.Advance(time.Duration(random.IntN(40)) * time.Second)
			j.check()
		}
	}
	j.store.failTouches(nil)
	if t.Failed() {
		t.Log(strings.Join(j.log[max(0, len(j.log)-40):], "\n"))
	}
}

// check compares what the clients' tokens open with what is known.
func (j *judged) check() {
	j.t.Helper()
	j.hooks.Add(1)
	defer j.hooks.Add(-1)
	for i, token := range j.devices {
		k := j.of[token]
		if k == nil || k.ended || j.t.Failed() {
			continue
		}
		v, err := j.checks.Get(j.checks.Load(j.t.Context(), token))
		if err != nil || v.ID == "" || v.User != k.user {
			j.t.Errorf("client %d: its token opens the session of %q, %v; want %q", i, v.User, err, k.user)
		}
		for _, item := range k.want() {
			if !slices.Contains(v.Data.Cart, item) {
				j.t.Errorf("client %d: its session has %q, which lacks %q", i, v.Data.Cart, item)
			}
		}
	}
}

// request makes a request of client i.
func (j *judged) request(i int) {
	shown := j.devices[i]
	r := httptest.NewRequest("GET", "/", nil)
	if shown != "" {
		r.Header.Set("Authorization", "Bearer "+shown)
	}
	if j.random.IntN(6) == 0 {
		r.Header.Set("Poll", "1")
	}
	w := httptest.NewRecorder()
	var last *told
	login := 0 // the item of its last login
	j.note("client %d begins, token %.25s", i, shown)
	j.handle = func(w http.ResponseWriter, r *http.Request) {
		for range 1 + j.random.IntN(3) {
			last = j.do(r.Context(), i, shown, &login)
			if j.random.IntN(8) == 0 {
				w.WriteHeader(http.StatusOK)
			}
		}
		if j.random.IntN(6) == 0 {
			j.note("panics")
			panic("bug")
		}
	}
	j.depth++
	j.handler.ServeHTTP(w, r)
	j.depth--
	given, ok := w.Result().Header["Session-Token"]
	if !ok {
		return
	}
	// Of answers to requests at once the client keeps the last one whose session still lives.
	switch {
	case given[0] == "":
		if k := j.of[j.devices[i]]; k == nil || k.ended {
			j.devices[i] = ""
		}
	case last == nil || last.ended:
	case j.of[given[0]] == last && last.token != given[0] && last.since > login: // renewed since a login has joined it
	default:
		if j.of[given[0]] != last {
			last.token, last.since = given[0], j.items+1
		}
		j.of[given[0]], j.devices[i] = last, given[0]
	}
	j.note("client %d is given %.25s", i, given[0])
}

// now returns the session that the request has.
func (j *judged) now(ctx context.Context) *told {
	j.hooks.Add(1)
	defer j.hooks.Add(-1)
	v, err := j.sessions.Get(ctx)
	if err != nil || v.ID == "" {
		return nil
	}
	k := j.known[v.ID]
	if k == nil {
		k = &told{user: v.User}
		j.known[v.ID] = k
	}
	return k
}

// do makes a random call of the manager in a request, and returns the session that the request then has.
func (j *judged) do(ctx context.Context, i int, shown string, login *int) *told {
	was := j.now(ctx)
	var err error
	what := ""
	item := fmt.Sprint("item", j.items)
	j.items++
	add := func(d *Data) error { d.Cart = append(d.Cart, item); return nil }
	switch n := j.random.IntN(20); {
	case n < 6:
		what = "update"
		if err = j.sessions.Update(ctx, add); err == nil {
			if k := j.now(ctx); k != nil {
				k.items = append(k.items, item)
			}
		}
	case n < 10:
		what = "renew"
		err = j.sessions.Renew(ctx)
	case n < 15:
		user := []string{"ann", "ann", "bob"}[j.random.IntN(3)]
		what = "login " + user
		if was == nil {
			was = j.of[shown] // the login may join what replaced it
		}
		if was != nil {
			was.logins = append(was.logins, user+" "+shown)
		}
		*login = j.items
		if err = j.sessions.Login(ctx, session.Login{User: user}, add); err != nil {
			break
		}
		k := j.now(ctx)
		if k == nil {
			break // it was ended since
		}
		if k.items = append(k.items, item); was == nil || was == k {
			break
		}
		if was.along(user) {
			k.from = was
		}
		if was.ended = true; was.next == nil {
			was.next = k
		}
	case n < 16:
		what = "logout"
		if was != nil {
			was.gone, was.ended = true, true
		}
		err = j.sessions.Destroy(ctx)
	case n < 18:
		what = "refresh"
		_, err = j.sessions.Refresh(ctx)
	default:
		what = "get"
		_, err = j.sessions.Get(ctx)
	}
	k := j.now(ctx)
	j.note("client %d: %s, %s: %v; had %p, has %p", i, what, item, err, was, k)
	if err != nil && !errors.Is(err, session.ErrEnded) && !errors.Is(err, session.ErrHeaderSent) {
		j.t.Errorf("%s: %v", what, err)
	}
	return k
}

// TestJudgeOfEvictions has a user log in on releases with other policies, over a store of which single
// reads fail. A login beyond the bound ends the live sessions that began first, as many as
// needed, and never another one.
func TestJudgeOfEvictions(t *testing.T) {
	const day = 24 * hours
	evictions, failures := 0, 0
	for seed := range *worldsFlag {
		random := rand.New(rand.NewPCG(3610, seed))
		kept, err := memory.New[[]byte](nil)
		if err != nil {
			t.Fatal(err)
		}
		d, clock := &batch{remote: &remote{kept}}, newClock()
		most := 1 + random.IntN(4)
		lives := []time.Duration{12 * hours, 2 * day, 30 * day, 300 * day}
		var releases []*session.Manager[Data]
		for range 3 {
			longest, remembered := lives[random.IntN(3)], lives[random.IntN(4)]
			m, err := session.New[Data](d, &session.Options{
				MaxPerUser: most, Now: clock.Now,
				Policy:   slidingttl.Policy{IdleGrace: longest / time.Duration(1+random.IntN(4)), MaxLifetime: longest},
				Remember: slidingttl.Policy{IdleGrace: remembered / time.Duration(1+random.IntN(4)), MaxLifetime: remembered},
				OnError:  func(context.Context, error) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			releases = append(releases, m)
		}
		var tokens []string
		for step := 0; step < 60 && !t.Failed(); step++ {
			clock.Advance(time.Second + time.Duration(random.Int64N(int64(lives[random.IntN(3)]/time.Duration(1+random.IntN(100))))))
			m := releases[random.IntN(3)]
			if len(tokens) > 0 && random.IntN(2) == 0 {
				user(t, m, tokens[max(0, len(tokens)-1-random.IntN(4))])
				continue
			}
			before, err := m.List(t.Context(), "ann")
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(before, func(a, b session.Info) int { return a.CreatedAt.Compare(b.CreatedAt) })
			if d.fail, d.failed = "", 0; len(before) > 0 && random.IntN(4) == 0 {
				d.fail = "s:" + before[random.IntN(len(before))].ID
			}
			ctx := m.Load(t.Context(), "")
			login := session.Login{User: "ann", Remember: random.IntN(2) == 0}
			if random.IntN(4) == 0 {
				p := lives[random.IntN(4)]
				login = session.Login{User: "ann", Policy: slidingttl.Policy{IdleGrace: p, MaxLifetime: p}}
			}
			if err := m.Login(ctx, login, nil); err != nil {
				t.Fatal(err)
			}
			failures += d.failed
			d.fail = ""
			token, _, _ := m.Commit(ctx)
			tokens = append(tokens, token)
			after, err := m.List(t.Context(), "ann")
			if err != nil {
				t.Fatal(err)
			}
			over := max(0, len(before)+1-most)
			for i, s := range before {
				lives := slices.ContainsFunc(after, func(a session.Info) bool { return a.ID == s.ID })
				if !lives {
					evictions++
				}
				if !lives && i >= over || lives && i < over && d.failed == 0 {
					t.Errorf("world %d, step %d: of %d live sessions, at most %d, the login leaves number %d: %v; %d reads failed", seed, step, len(before), most, i, lives, d.failed)
				}
			}
		}
		for _, m := range releases {
			if err := m.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	}
	if evictions == 0 || failures == 0 {
		t.Errorf("%d evictions, %d failed reads", evictions, failures)
	}
}
