//go:build !race

package admission

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

var (
	ops     = flag.Int("judge.ops", defaultOps, "how many calls")
	seed    = flag.Uint64("judge.seed", 0, "the only seed; zero: all")
	history = flag.Bool("judge.history", false, "say what each call of a world that fails has shown")
)

// perSeed is how many calls a world lasts.
const perSeed = 4000

// Data is what the sessions hold.
type Data struct {
	Count int `json:"count,omitempty"`
}

// counts says what was judged.
type counts struct {
	calls, admitted, refused, owed, loggedIn, renewed, evicted, revokedAll, ended, failed, nested, walks, deployed, lateWrites int
}

func (c *counts) add(o *counts) {
	for _, p := range [][2]*int{
		{&c.calls, &o.calls}, {&c.admitted, &o.admitted}, {&c.refused, &o.refused}, {&c.owed, &o.owed}, {&c.loggedIn, &o.loggedIn},
		{&c.renewed, &o.renewed}, {&c.evicted, &o.evicted}, {&c.revokedAll, &o.revokedAll}, {&c.ended, &o.ended}, {&c.failed, &o.failed},
		{&c.nested, &o.nested}, {&c.walks, &o.walks}, {&c.deployed, &o.deployed}, {&c.lateWrites, &o.lateWrites},
	} {
		*p[0] += *p[1]
	}
}

// TestWhoGetsIn: no token opens a session that it should not, no session lives after RevokeAll has
// returned nil, no user is thrown out early, and no change is lost.
func TestWhoGetsIn(t *testing.T) {
	var sum counts
	run := func(seed uint64) {
		synctest.Test(t, func(t *testing.T) { // so that a wait for a touch does not end because the machine is slow
			c := newWorld(t, seed).run()
			sum.add(&c)
		})
	}
	if *seed != 0 {
		run(*seed)
		t.Logf("%+v", sum)
		return
	}
	for s := uint64(1); sum.calls < *ops && !t.Failed(); s++ {
		run(s)
	}
	t.Logf("%d calls: %+v", sum.calls, sum)
	if !t.Failed() && slices.Contains([]int{sum.admitted, sum.refused, sum.owed, sum.renewed, sum.evicted, sum.revokedAll, sum.failed, sum.nested, sum.walks, sum.lateWrites}, 0) {
		t.Error("something was never judged")
	}
}

// world is a site with its visitors, under one seed.
type world struct {
	t    *testing.T
	seed uint64
	dice *rand.Rand
	now  time.Time

	atMost int // Options.MaxPerUser

	kept     *memory.Driver[session.Record]
	store    *flaky
	releases [2]*release
	history  []policies

	users   []string
	clients []*client
	lives   map[string]*life // by the handle in their tokens
	ids     map[string]*life
	lost    map[string]bool // IDs of sessions that were evicted before a login had returned
	tokens  []string        // all that were ever given
	waiting []waiting
	doubted map[string]bool // users whose last login met a failure

	revokedAt map[string]int // the last call that was to end all sessions of a user

	calls        int
	depth        int
	logins       int // under way
	nestedBefore int // calls within others, when the login under way began
	failed       bool
	log          []string // with -judge.history
	count        counts
}

type client struct {
	user  string
	by    way
	token string
}

// release is one of the two that run.
type release struct {
	*server
	index int // in the history
	skew  time.Duration
	every bool // Options.RenewEvery is set
}

// waiting is a request that has begun.
type waiting struct {
	r   *release
	ctx context.Context
	l   *life
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, seed: seed, dice: rand.New(rand.NewPCG(seed, 1)), now: time.Now(), atMost: 1 + int(seed/2%4),
		lives: map[string]*life{}, ids: map[string]*life{}, doubted: map[string]bool{}, revokedAt: map[string]int{}, lost: map[string]bool{},
	}
	var err error
	if w.kept, err = memory.New[session.Record](nil); err != nil {
		t.Fatal(err)
	}
	step := time.Millisecond
	if seed%2 == 0 {
		step = time.Second
	}
	w.store = &flaky{
		Driver: w.kept, step: step, dice: rand.New(rand.NewPCG(seed, 2)), touches: rand.New(rand.NewPCG(seed, 3)), between: w.between,
		renewed: map[string]time.Time{}, broken: w.fail,
	}
	for u := range 5 {
		w.users = append(w.users, fmt.Sprint("user", u))
		for range 3 {
			w.clients = append(w.clients, &client{user: w.users[u], by: way(w.dice.IntN(int(ways)))})
		}
	}
	for i := range w.releases {
		w.deploy(i)
	}
	return w
}

func (w *world) run() counts {
	for w.calls < perSeed && !w.failed {
		w.advance()
		switch w.dice.IntN(400) {
		case 0, 1:
			w.deploy(w.dice.IntN(len(w.releases)))
		case 2, 3:
			w.walk()
		case 4:
			w.store.mu.Lock()
			if w.seed%3 != 0 { // some stores never fail
				w.store.failing = []int{0, 0, 5, 50}[w.dice.IntN(4)]
				w.store.slow = []int{0, 0, 20, 200}[w.dice.IntN(4)]
			}
			w.store.mu.Unlock()
		default:
			w.request()
		}
	}
	for _, r := range w.releases {
		_ = r.sessions.Close(context.Background())
	}
	if err := w.kept.Close(); err != nil {
		w.t.Error(err)
	}
	w.count.calls, w.count.failed = w.calls, w.store.failures()
	return w.count
}

func (w *world) fail(err error) {
	if err != nil && !w.failed {
		w.failed = true
		w.t.Errorf("call %d: %v (-judge.seed=%d)", w.calls, err, w.seed)
		if *history {
			w.t.Log(strings.Join(w.log, "\n"))
		}
	}
}

// told describes l for a failure: what the store has, and the policies since its last access.
func (w *world) told(l *life) string {
	text := fmt.Sprintf("the session of %q, begun by call %d at %v, last seen %v, now %v", l.user, l.bornAt, l.born, l.sure, w.now)
	if e, err := w.kept.Get(context.Background(), "s:"+l.id); err == nil {
		text += fmt.Sprintf("; stored until %v, listed for %v, ended %v", e.ExpiresAt.Time().UTC(), e.Value.Listed, e.Value.Kind != 0)
	} else {
		text += "; " + err.Error()
	}
	for i := range w.history {
		if p := &w.history[i]; p.until.IsZero() || !p.until.Before(l.sure) {
			text += fmt.Sprintf("; release %d from %v: %v", i, p.from, p.of(l))
		}
	}
	return text
}

// advance lets time pass: mostly seconds, now and then days.
func (w *world) advance() {
	d := 5 * time.Second
	switch n := w.dice.IntN(1000); {
	case n < 3:
		d = 10 * 24 * time.Hour
	case n < 30:
		d = 6 * time.Hour
	case n < 250:
		d = 10 * time.Minute
	}
	time.Sleep(time.Duration(w.dice.Int64N(int64(d))).Truncate(time.Millisecond))
	w.now = time.Now()
}

// policy draws one of a session. A remembered session has a cap, by which its cookie ends.
func (w *world) policy(remember bool) slidingttl.Policy {
	idle := []time.Duration{10 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour, 72 * time.Hour, 720 * time.Hour}[w.dice.IntN(6)]
	p := slidingttl.Policy{IdleGrace: idle, MaxLifetime: idle * time.Duration([]int{1, 2, 8, 24}[w.dice.IntN(4)])}
	p.MaxLifetime = min(p.MaxLifetime, 399*24*time.Hour)
	if w.dice.IntN(6) == 0 && !remember {
		p.MaxLifetime = slidingttl.NoCap
	}
	if w.dice.IntN(2) == 0 {
		p.Slack = idle / 10
	}
	return p
}

// deploy replaces a release by one with other policies.
func (w *world) deploy(i int) {
	if r := w.releases[i]; r != nil {
		if err := r.sessions.Close(context.Background()); err != nil {
			w.fail(err)
		}
		w.now = time.Now()
		w.history[r.index].until = w.now
		w.waiting = slices.DeleteFunc(w.waiting, func(l waiting) bool { return l.r == r })
	}
	p := policies{normal: w.policy(false), remember: w.policy(true), from: w.now}
	r := &release{index: len(w.history), skew: time.Duration(w.dice.Int64N(int64(2*skew))).Truncate(time.Millisecond) - skew}
	w.history = append(w.history, p)
	o := session.Options{
		Policy: p.normal, Remember: p.remember, RenewGrace: grace, MaxPerUser: w.atMost, MaxRequest: maxWait,
		Now:     func() time.Time { return time.Now().Add(r.skew) },
		Logger:  slog.New(slog.DiscardHandler),
		Passive: func(q *http.Request) bool { return q.Header.Get("Passive") != "" },
		OnEnded: func(_ context.Context, s session.Info, why session.Reason) {
			if why == session.ReasonEvicted {
				w.fail(w.evicted(s.ID))
			}
		},
	}
	if w.dice.IntN(2) == 0 {
		o.RenewEvery, r.every = 20*time.Minute, true
	}
	m, err := session.New[Data](w.store, &o)
	if err != nil {
		w.t.Fatal(err)
	}
	r.server = newServer(m)
	w.releases[i] = r
	w.count.deployed++
}

// walk is the operator's.
func (w *world) walk() {
	w.count.walks++
	ctx := context.Background()
	// What the sessions and indexes of all releases may live; Foreign records there are none.
	o := upkeep.Options{Now: func() time.Time { return w.now }, PolicyFor: func(string) slidingttl.Policy {
		return slidingttl.Policy{IdleGrace: 400 * 24 * time.Hour, MaxLifetime: slidingttl.NoCap}
	}}
	wo := upkeep.WriteOptions{Options: o, Apply: true}
	p := slidingttl.Policy{IdleGrace: 400 * 24 * time.Hour, MaxLifetime: slidingttl.NoCap}
	var err error
	switch w.dice.IntN(4) {
	case 0:
		_, err = survey.Audit(ctx, w.kept, p, &survey.LookOptions{Options: o})
	case 1:
		_, err = upkeep.Reap(ctx, w.kept, p, &upkeep.ReapOptions{WriteOptions: wo, Expired: true, PastCap: true})
	case 2:
		_, err = upkeep.Adopt(ctx, w.kept, p, &upkeep.AdoptOptions{WriteOptions: wo})
	case 3:
		_, err = upkeep.Mend(ctx, w.kept, &upkeep.MendOptions{WriteOptions: wo})
	}
	w.fail(err)
}

// between makes another request while one is under way.
func (w *world) between() {
	if w.depth != 1 || w.dice.IntN(40) != 0 {
		return
	}
	w.count.nested++
	w.request()
}

// request makes a request of some client, or of one who has a token of another's.
func (w *world) request() {
	w.calls++
	w.depth++
	defer func() { w.depth-- }()
	r := w.releases[w.dice.IntN(len(w.releases))]
	c := w.clients[w.dice.IntN(len(w.clients))]
	q := call{world: w, r: r, p: &w.history[r.index], at: w.calls, user: c.user, token: c.token, by: c.by, act: w.dice.IntN(100)}
	thief := len(w.tokens) > 0 && w.dice.IntN(6) == 0
	switch {
	case thief:
		from := len(w.tokens) - 1 - w.dice.IntN(len(w.tokens))
		if w.dice.IntN(2) == 0 {
			from = max(from, len(w.tokens)-5)
		}
		q.token, q.by = w.tokens[from], way(w.dice.IntN(int(ways)))
	case q.token == "" && q.act < 70:
		q.act = 99 // logs in
	}
	given := q.make()
	switch {
	case thief || given == "" && (q.s.ID != "" || q.err != nil || w.dice.IntN(2) == 0):
	case given == "" || given == "-":
		c.token = ""
	default:
		c.token = given
	}
}
