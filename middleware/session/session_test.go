package session_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var halfHour = slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 2 * time.Hour}

func TestTimeouts(t *testing.T) {
	s := newSite(t, &session.Options{Policy: halfHour})
	b := s.browser()
	b.ok("/count")
	b.want("/times", "created 0s idle 30m0s absolute 2h0m0s", "a new session")
	s.clock.Advance(29 * time.Minute)
	b.ok("/get")
	b.want("/times", "created 0s idle 59m0s absolute 2h0m0s", "an access moves the idle timeout only")
	s.clock.Advance(31 * time.Minute)
	b.want("/get", "/0/", "idle for 31 minutes")

	b = s.browser()
	b.ok("/count")
	for range 4 {
		s.clock.Advance(29 * time.Minute)
		b.want("/get", "/1/", "busy")
	}
	s.clock.Advance(4 * time.Minute)
	b.want("/get", "/0/", "two hours old, and busy")
}

func TestReadsWriteOnlyWhenDue(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	b.ok("/count")
	s.store.writes.Store(0)
	for range 20 {
		s.clock.Advance(8 * time.Second)
		b.want("/get", "/1/", "live")
	}
	if w, n := s.store.writes.Load(), s.store.touches.Load(); w != 0 || n != 0 {
		t.Errorf("%d writes and %d touches within the slack", w, n)
	}
	s.clock.Advance(time.Minute)
	b.want("/get", "/1/", "live")
	if w, n := s.store.writes.Load(), s.store.touches.Load(); w != 0 || n != 1 {
		t.Errorf("%d writes and %d touches when one touch was due", w, n)
	}
}

func TestLoadsOnce(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/many", func(w http.ResponseWriter, r *http.Request) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if v, err := s.sessions.Get(r.Context()); err != nil || v.Data.Count != 1 {
					t.Errorf("%+v, %v", v, err)
				}
			})
		}
		wg.Wait()
	})
	b := s.browser()
	b.ok("/count")
	before := s.store.calls()
	b.ok("/public")
	if n := s.store.calls() - before; n != 0 {
		t.Errorf("%d store calls for a handler that does not ask", n)
	}
	b.ok("/many")
	if n := s.store.calls() - before; n != 1 {
		t.Errorf("%d store calls for one request", n)
	}
}

// TestSlowReader delays a request that only reads, while another one changes or destroys the
// session. Managers that write on every read when an idle timeout is set fail both cases.
func TestSlowReader(t *testing.T) {
	s := newSite(t, &session.Options{Policy: halfHour})
	reading, finish := make(chan struct{}), make(chan struct{})
	s.mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.sessions.Get(r.Context()); err != nil {
			t.Error(err)
		}
		reading <- struct{}{}
		<-finish
	})
	slowly := func(b *browser, meanwhile func()) {
		var wg sync.WaitGroup
		wg.Go(func() { b.get("/slow") })
		<-reading
		meanwhile()
		finish <- struct{}{}
		wg.Wait()
	}

	b := s.browser()
	b.ok("/add?item=a")
	s.clock.Advance(time.Minute)
	slowly(b, func() { b.ok("/add?item=b") })
	b.want("/get", "/0/a,b", "a slow read undid a write")

	was := b.cookie()
	s.clock.Advance(time.Minute)
	slowly(b, func() { b.ok("/logout") })
	if r := b.with("/get", was); r.body != "/0/" {
		t.Errorf("a slow read brought a destroyed session back: %q", r.body)
	}
}

func TestConcurrentUpdatesBothWin(t *testing.T) {
	s := newSite(t, nil)
	inside, finish := make(chan struct{}), make(chan struct{})
	calls := 0
	s.mux.HandleFunc("/slow-add", func(w http.ResponseWriter, r *http.Request) {
		err := s.sessions.Update(r.Context(), func(d *Data) error {
			if calls++; calls == 1 {
				inside <- struct{}{}
				<-finish
			}
			d.Cart = append(d.Cart, "slow")
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if v, err := s.sessions.Get(r.Context()); err != nil || len(v.Data.Cart) != 3 {
			t.Errorf("after the update the request sees %v, %v", v.Data.Cart, err)
		}
	})
	b := s.browser()
	b.ok("/add?item=first")
	var wg sync.WaitGroup
	wg.Go(func() { b.get("/slow-add") })
	<-inside
	b.ok("/add?item=fast")
	finish <- struct{}{}
	wg.Wait()
	b.want("/get", "/0/first,fast,slow", "both changes count")
	if calls != 2 {
		t.Errorf("the slow function ran %d times, want 2: again on what the other left", calls)
	}
}

func TestManyConcurrentUpdates(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	b.ok("/count")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				b.ok("/count")
				b.ok("/get")
			}
		})
	}
	wg.Wait()
	b.want("/get", "/81/", "every update counts")
}

func TestConcurrentUpdatesOfOneRequestBeginOneSession(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/four", func(w http.ResponseWriter, r *http.Request) {
		var wg sync.WaitGroup
		var first sync.WaitGroup
		first.Add(4)
		for range 4 {
			var once sync.Once
			wg.Go(func() {
				err := s.sessions.Update(r.Context(), func(d *Data) error {
					once.Do(func() {
						first.Done()
						first.Wait() // all have found no session
					})
					d.Count++
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	b := s.browser()
	if n := len(b.ok("/four").header.Values("Set-Cookie")); n != 1 {
		t.Errorf("%d cookies", n)
	}
	b.want("/get", "/4/", "all four count")
	keys := map[string]bool{}
	for written := range s.store.seen {
		keys[strings.Fields(written)[1]] = true
	}
	if gone := s.store.deletes.Load(); len(keys) != 4 || gone != 3 {
		t.Errorf("%d sessions written and %d deleted, want all but one gone", len(keys), gone)
	}
}

func TestUpdateIsIsolated(t *testing.T) {
	s := newSite(t, nil)
	fail := errors.New("no")
	s.mux.HandleFunc("/fail", func(w http.ResponseWriter, r *http.Request) {
		err := s.sessions.Update(r.Context(), func(d *Data) error {
			d.Cart[0], d.Seen["x"] = "changed", 1
			return fail
		})
		if err != fail {
			t.Errorf("error %v, want the function's own", err)
		}
		if v, _ := s.sessions.Get(r.Context()); v.Data.Cart[0] != "a" || len(v.Data.Seen) != 1 {
			t.Errorf("a failed update shows in the request: %+v", v.Data)
		}
	})
	s.mux.HandleFunc("/panic", func(w http.ResponseWriter, r *http.Request) {
		_ = s.sessions.Update(r.Context(), func(d *Data) error {
			d.Cart[0] = "changed"
			panic(http.ErrAbortHandler)
		})
	})
	s.mux.HandleFunc("/seen", func(w http.ResponseWriter, r *http.Request) {
		if err := s.sessions.Update(r.Context(), func(d *Data) error { d.Seen = map[string]int{"y": 1}; return nil }); err != nil {
			t.Error(err)
		}
	})
	b := s.browser()
	b.ok("/add?item=a")
	b.ok("/seen")
	b.ok("/fail")
	if res, err := b.client.Get(s.server.URL + "/panic"); err == nil {
		res.Body.Close()
		t.Error("a panic in the handler was swallowed")
	}
	b.want("/get", "/0/a", "neither left a change")
	b.ok("/add?item=b")
	b.want("/get", "/0/a,b", "the session still works")
}

func TestUnchangedDataIsNotWritten(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/nothing", func(w http.ResponseWriter, r *http.Request) {
		if err := s.sessions.Update(r.Context(), func(*Data) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	b := s.browser()
	if c := b.ok("/nothing").header.Get("Set-Cookie"); c != "" || s.store.calls() != 0 {
		t.Errorf("an update of nothing began a session: %q, %d store calls", c, s.store.calls())
	}
	b.ok("/count")
	before := s.store.writes.Load()
	b.ok("/nothing")
	if n := s.store.writes.Load() - before; n != 0 {
		t.Errorf("%d writes", n)
	}
}

func TestTake(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/flash", func(w http.ResponseWriter, r *http.Request) {
		if err := s.sessions.Update(r.Context(), func(d *Data) error { d.Flash = "hello"; return nil }); err != nil {
			t.Error(err)
		}
	})
	s.mux.HandleFunc("/take", func(w http.ResponseWriter, r *http.Request) {
		v, err := session.Take(r.Context(), s.sessions, func(d *Data) *string { return &d.Flash })
		if err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, v)
	})
	b := s.browser()
	if r := b.want("/take", "", "no session"); r.header.Get("Set-Cookie") != "" {
		t.Error("taking nothing began a session")
	}
	b.ok("/flash")
	var mu sync.Mutex
	var all string
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			r := b.ok("/take")
			mu.Lock()
			defer mu.Unlock()
			all += r.body
		})
	}
	wg.Wait()
	if all != "hello" {
		t.Errorf("eight requests took %q in all", all)
	}
	before := s.store.writes.Load()
	b.want("/take", "", "taken")
	if n := s.store.writes.Load() - before; n != 0 {
		t.Errorf("taking nothing wrote %d times", n)
	}
}

func TestUpdateOfEndedSession(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	other := s.browser()
	s.mux.HandleFunc("/late", func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.sessions.Get(r.Context()); err != nil {
			t.Error(err)
		}
		if got := other.with("/logout", r.Header.Get("Cookie")); got.status != http.StatusOK {
			t.Errorf("logout: %d", got.status)
		}
		for range 2 {
			err := s.sessions.Update(r.Context(), func(d *Data) error { d.Count++; return nil })
			if err != session.ErrEnded {
				t.Errorf("update of a session that was destroyed meanwhile: %v", err)
			}
		}
		if err := s.sessions.Renew(r.Context()); err != session.ErrEnded {
			t.Errorf("renewal of it: %v", err)
		}
		if v, err := s.sessions.Refresh(r.Context()); err != nil || v.ID != "" {
			t.Errorf("refresh of it: %+v, %v", v, err)
		}
	})
	b.ok("/count")
	was := b.cookie()
	if c := b.ok("/late").header.Get("Set-Cookie"); c != "" {
		t.Errorf("sets %q", c)
	}
	if r := b.with("/get", was); r.body != "/0/" {
		t.Errorf("it came back: %q", r.body)
	}
}

func TestDestroyThenUpdate(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/bye", func(w http.ResponseWriter, r *http.Request) {
		if err := s.sessions.Destroy(r.Context()); err != nil {
			t.Error(err)
		}
		if v, err := s.sessions.Get(r.Context()); err != nil || v.ID != "" {
			t.Errorf("after Destroy: %+v, %v", v, err)
		}
		if err := s.sessions.Update(r.Context(), func(d *Data) error { d.Cart = []string{"bye"}; return nil }); err != nil {
			t.Error(err)
		}
	})
	b := s.browser()
	b.ok("/login?user=u")
	was := b.cookie()
	r := b.ok("/bye")
	if n := len(r.header.Values("Set-Cookie")); n != 1 {
		t.Errorf("%d cookies set, want one", n)
	}
	b.want("/get", "/0/bye", "a new, anonymous session")
	if r := b.with("/get", was); r.body != "/0/" {
		t.Errorf("the former session lives: %q", r.body)
	}
}

func TestPassiveRequests(t *testing.T) {
	s := newSite(t, &session.Options{
		Policy: halfHour,
		Passive: func(r *http.Request) bool {
			return r.Header.Get("X-Poll") != "" || strings.HasPrefix(r.URL.Path, "/times")
		},
	})
	b := s.browser()
	b.ok("/count")
	for range 2 {
		s.clock.Advance(10 * time.Minute)
		b.want("/times", "created 0s idle 30m0s absolute 2h0m0s", "polling does not extend, and says how long is left")
	}
	s.clock.Advance(11 * time.Minute)
	b.want("/get", "/0/", "polled, but idle for 31 minutes")
}

// TestKeepAlive: a user is busy on pages whose handlers never ask for the session.
func TestKeepAlive(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := newSite(t, &session.Options{
			Policy: halfHour, KeepAlive: keep,
			Passive: func(r *http.Request) bool { return r.Header.Get("X-Poll") != "" },
		})
		b := s.browser()
		b.ok("/login?user=ann")
		for range 3 {
			s.clock.Advance(20 * time.Minute)
			r := b.ok("/public")
			if got := r.header.Get("Vary") + r.header.Get("Cache-Control"); got != "" {
				t.Errorf("the answer does not depend on the session and says %q", got)
			}
		}
		want := map[bool]string{true: "ann/0/", false: "/0/"}[keep]
		b.want("/get", want, fmt.Sprintf("an hour of pages that do not ask, KeepAlive %v", keep))
		if !keep {
			continue
		}
		before := s.store.calls()
		b.ok("/get")
		if n := s.store.calls() - before; n != 1 {
			t.Errorf("%d store calls for a request that asks", n)
		}
		s.browser().ok("/public")
		if n := s.store.calls() - before; n != 1 {
			t.Errorf("a visitor without a cookie cost %d store calls", n-1)
		}
		s.store.failWith(errDown)
		b.want("/public", "public", "a page that needs no session needs no store")
		if r := b.get("/get"); r.status != http.StatusServiceUnavailable {
			t.Errorf("a page that needs it: %d", r.status)
		}
		s.store.failWith(nil)
		before = s.store.calls()
		for range 2 {
			s.clock.Advance(20 * time.Minute)
			req, _ := http.NewRequest("GET", s.server.URL+"/public", nil)
			req.Header.Set("X-Poll", "1")
			b.do(req)
		}
		if n := s.store.calls() - before; n != 0 {
			t.Errorf("polling cost %d store calls", n)
		}
		b.want("/get", "/0/", "polling is no access")
	}
}

// TestLastSeenIsNotAhead: LastSeen is not in the future, even for a record written with more
// slack than the policy has now.
func TestLastSeenIsNotAhead(t *testing.T) {
	s := newSite(t, &session.Options{Policy: slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 2 * time.Hour, Slack: 20 * time.Minute}})
	tight, err := session.New[Data](s.driver, &session.Options{Policy: halfHour, Now: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer tight.Close(context.Background())
	s.browser().ok("/login?user=ann")
	s.clock.Advance(time.Minute)
	list, err := tight.List(t.Context(), "ann")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if seen := list[0].LastSeen; seen.After(s.clock.Now()) {
		t.Errorf("last seen in %v", seen.Sub(s.clock.Now()))
	}
}

func TestRefresh(t *testing.T) {
	s := newSite(t, &session.Options{Policy: halfHour})
	b := s.browser()
	s.mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.sessions.Get(r.Context()); err != nil {
			t.Error(err)
		}
		for range 3 {
			s.clock.Advance(20 * time.Minute)
			if v, err := s.sessions.Refresh(r.Context()); err != nil || v.ID == "" {
				t.Errorf("refresh: %+v, %v", v, err)
			}
		}
		b.ok("/count")
		if v, err := s.sessions.Refresh(r.Context()); err != nil || v.Data.Count != 2 {
			t.Errorf("refresh does not see another's change: %+v, %v", v, err)
		}
		if v, err := s.sessions.Get(r.Context()); err != nil || v.Data.Count != 2 {
			t.Errorf("get after refresh: %+v, %v", v, err)
		}
		s.clock.Advance(31 * time.Minute)
		if v, err := s.sessions.Refresh(r.Context()); err != nil || v.ID != "" {
			t.Errorf("refresh of an expired session: %+v, %v", v, err)
		}
	})
	b.ok("/count")
	b.ok("/stream")
}

func TestWithoutMiddleware(t *testing.T) {
	s := newSite(t, nil)
	ctx := t.Context()
	_, get := s.sessions.Get(ctx)
	_, refresh := s.sessions.Refresh(ctx)
	_, take := session.Take(ctx, s.sessions, func(d *Data) *string { return &d.Flash })
	for name, err := range map[string]error{
		"Get":     get,
		"Refresh": refresh,
		"Take":    take,
		"Update":  s.sessions.Update(ctx, func(*Data) error { return nil }),
		"Login":   s.sessions.Login(ctx, session.Login{User: "u"}, nil),
		"Renew":   s.sessions.Renew(ctx),
		"Destroy": s.sessions.Destroy(ctx),
	} {
		if !errors.Is(err, session.ErrNoMiddleware) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMiddlewareTwice(t *testing.T) {
	s := newSite(t, nil)
	s.server.Config.Handler = s.sessions.Middleware(s.server.Config.Handler)
	b := s.browser()
	b.ok("/count")
	if r := b.want("/get", "/1/", "one session"); len(r.header.Values("Vary")) != 1 {
		t.Errorf("Vary %q", r.header.Values("Vary"))
	}
	inner := s.sessions.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := s.sessions.Get(r.Context())
		fmt.Fprint(w, v.User, err)
	}))
	s.mux.HandleFunc("/between", func(w http.ResponseWriter, r *http.Request) {
		if err := s.sessions.Login(r.Context(), session.Login{User: "ann"}, nil); err != nil {
			t.Error(err)
		}
		inner.ServeHTTP(w, r)
	})
	b.want("/between", "ann<nil>", "under itself it is the same request")
}

func TestTwoManagersOnOneDriver(t *testing.T) {
	s := newSite(t, nil)
	staff, err := session.New[int](s.driver, &session.Options{Cookie: "staff", KeyPrefix: "staff:", Now: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer staff.Close(context.Background())
	s.mux.HandleFunc("/staff", func(w http.ResponseWriter, r *http.Request) {
		if err := staff.Update(r.Context(), func(n *int) error { *n += 10; return nil }); err != nil {
			t.Error(err)
		}
		v, err := staff.Get(r.Context())
		fmt.Fprint(w, v.Data, err)
	})
	s.server.Config.Handler = staff.Middleware(s.server.Config.Handler)
	b := s.browser()
	b.ok("/count")
	b.want("/staff", "10 <nil>", "its own session")
	b.want("/staff", "20 <nil>", "its own session")
	b.want("/get", "/1/", "the other's")
	swapped := strings.NewReplacer("__Host-session", "__Host-staff", "__Host-staff", "__Host-session").Replace(b.cookie())
	if r := b.with("/get", swapped); r.body != "/0/" {
		t.Errorf("a token of one manager opens a session of the other: %q", r.body)
	}
}

func TestOptions(t *testing.T) {
	const day = 24 * time.Hour
	d, err := memory.New[session.Record](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for field, o := range map[string]session.Options{
		"Policy.IdleGrace":     {Policy: slidingttl.Policy{MaxLifetime: time.Hour}},
		"Policy.MaxLifetime":   {Remember: slidingttl.Policy{IdleGrace: time.Hour}},
		"Options.Cookie":       {Cookie: "__Host-x"},
		"Options.Cookie ":      {Cookie: "a b"},
		"Options.SameSite":     {SameSite: 9},
		"Options.SameSite ":    {SameSite: http.SameSiteNoneMode, InsecureLocalhost: true},
		"Options.RenewGrace":   {RenewGrace: -1},
		"Options.RenewGrace ":  {RenewGrace: time.Hour},
		"Options.RenewEvery":   {RenewEvery: -1},
		"Options.RenewEvery ":  {RenewEvery: 10 * time.Second},
		"Options.RenewEvery  ": {Remember: slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: slidingttl.NoCap}},
		"Options.RenewEvery   ": {
			Remember:   slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 400*day + time.Millisecond},
			RenewEvery: 370*day + time.Millisecond,
		},
		"Options.Remember.IdleGrace": {
			Remember:   slidingttl.Policy{IdleGrace: 400 * day, MaxLifetime: slidingttl.NoCap},
			RenewEvery: day,
		},
		"Options.MaxRequest":   {MaxRequest: -1},
		"Options.MaxRequest ":  {MaxRequest: 13 * time.Hour},
		"Options.RenewGrace  ": {RenewGrace: time.Second + 1},
		"Options.MaxRequest  ": {MaxRequest: time.Second + 1},
		"Options.MaxData":      {MaxData: -1},
		"Options.MaxPerUser":   {MaxPerUser: -1},
		"Options.Touches":      {Touches: 7},
	} {
		_, err := session.New[Data](d, &o)
		var invalid *slidingttl.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != strings.TrimSpace(field) || invalid.Value == "" || invalid.Rule == "" {
			t.Errorf("%+v: error %v, want one that names %s, its value and the rule", o, err, field)
		}
	}
	m, err := session.New[Data](d, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestRequestSeesWhatItDid: a request sees its own changes.
func TestRequestSeesWhatItDid(t *testing.T) {
	s := newSite(t, nil)
	ctx := s.visit("")
	login := session.Login{User: "ann", Label: "phone", Remember: true}
	for i, do := range []func() error{
		func() error { return s.count(ctx) },
		func() error { return s.sessions.Login(ctx, login, nil) },
		func() error { return s.sessions.Renew(ctx) },
		func() error { return s.count(ctx) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		v, err := s.sessions.Get(ctx)
		want := session.Session[Data]{Data: Data{Count: 1 + i/3}}
		if i > 0 {
			want.User, want.Label, want.Remember = login.User, login.Label, login.Remember
		}
		if err != nil || v.ID == "" || v.Data.Count != want.Data.Count || v.User != want.User || v.Label != want.Label || v.Remember != want.Remember {
			t.Errorf("step %d: %+v, %v; want %+v", i, v, err, want)
		}
	}
}

// landed is a store that calls after once, when a session's record was replaced.
type landed struct {
	driver.Driver[session.Record]
	after func()
}

func (d *landed) Replace(ctx context.Context, key string, v session.Record, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	version, err := d.Driver.Replace(ctx, key, v, was, l, now)
	if f := d.after; err == nil && f != nil {
		d.after = nil
		f()
	}
	return version, err
}

// besides returns a manager over the site's store, and that store.
func (s *site) besides() (*session.Manager[Data], *landed) {
	store := &landed{Driver: s.store}
	m, err := session.New[Data](store, &session.Options{Now: s.clock.Now})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m, store
}

// TestRequestSeesWhatItDidAtOnce: of two changes by one request at once, the one that the store took first
// returns last. The request sees both.
func TestRequestSeesWhatItDidAtOnce(t *testing.T) {
	s := newSite(t, nil)
	m, store := s.besides()
	count := func(d *Data) error { d.Count++; return nil }
	for name, first := range map[string]func(ctx context.Context) error{
		"update": func(ctx context.Context) error { return m.Update(ctx, count) },
		"rotate": func(ctx context.Context) error { return m.Rotate(ctx, count) },
	} {
		token := s.login("", "ann")
		ctx := m.Load(t.Context(), token)
		if _, err := m.Get(ctx); err != nil {
			t.Fatal(err)
		}
		store.after = func() {
			if err := m.Update(ctx, func(d *Data) error { d.Cart = []string{"milk"}; return nil }); err != nil {
				t.Error(err)
			}
		}
		if err := first(ctx); err != nil {
			t.Fatal(err)
		}
		if v, err := m.Get(ctx); err != nil || v.Data.Count != 1 || len(v.Data.Cart) != 1 || v.Renewed {
			t.Errorf("%s: the request sees %+v, %v", name, v, err)
		}
		if next, changed, err := m.Commit(ctx); err != nil {
			t.Fatal(err)
		} else if changed {
			token = next
		}
		if v := s.get(token); v.Data.Count != 1 || len(v.Data.Cart) != 1 {
			t.Errorf("%s: the next request sees %+v", name, v)
		}
	}
}

// TestUpdateAfterItsSessionEnded: a request that reads its session again, after it changed that twice at
// once, and finds it gone begins no other, whatever the clocks say.
func TestUpdateAfterItsSessionEnded(t *testing.T) {
	s := newSite(t, nil)
	m, store := s.besides()
	count := func(d *Data) error { d.Count++; return nil }
	ctx := m.Load(t.Context(), s.login("", "ann"))
	if _, err := m.Get(ctx); err != nil {
		t.Fatal(err)
	}
	store.after = func() {
		if err := m.Update(ctx, count); err != nil {
			t.Error(err)
		}
	}
	if err := m.Update(ctx, count); err != nil {
		t.Fatal(err)
	}
	if err := m.RevokeAll(t.Context(), "ann"); err != nil { // within the millisecond in which the request arrived
		t.Fatal(err)
	}
	if err := m.Update(ctx, count); !errors.Is(err, session.ErrEnded) {
		t.Errorf("%v, want ErrEnded", err)
	}
	if _, changed, _ := m.Commit(ctx); changed {
		t.Error("the client is given another token")
	}
}
