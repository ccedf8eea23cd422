package compare

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/boj/redistore"
	"github.com/gin-contrib/sessions"
	ginredis "github.com/gin-contrib/sessions/redis"
	"github.com/gin-gonic/gin"
	gorilla "github.com/gorilla/sessions"
)

// redisSessions are sessions of at most 20 minutes, redistore's default, in a Redis of this process.
func redisSessions(t *testing.T) (*redistore.RediStore, *miniredis.Miniredis) {
	t.Helper()
	server := miniredis.RunT(t)
	s, err := redistore.NewRediStore(1, "tcp", server.Addr(), "", "", []byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.SetMaxAge(20 * 60)
	return s, server
}

// open is the beginning of a request with a cookie.
func open(t *testing.T, s gorilla.Store, cookie *http.Cookie) *gorilla.Session {
	t.Helper()
	r := httptest.NewRequest("GET", "/", nil)
	if cookie != nil {
		r.AddCookie(cookie)
	}
	session, _ := s.New(r, "session") // an error is a cookie that is too old, and the session new
	return session
}

// save returns the cookie that the response sets.
func save(t *testing.T, session *gorilla.Session) *http.Cookie {
	t.Helper()
	w := httptest.NewRecorder()
	if err := session.Save(httptest.NewRequest("GET", "/", nil), w); err != nil {
		t.Fatal(err)
	}
	return w.Result().Cookies()[0]
}

// login is the cookie of a session of user 42.
func login(t *testing.T, s gorilla.Store) *http.Cookie {
	t.Helper()
	session := open(t, s, nil)
	session.Values["user"] = 42
	return save(t, session)
}

// pass lets time pass here and at the server.
func pass(server *miniredis.Miniredis, d time.Duration) {
	time.Sleep(d)
	server.FastForward(d)
}

// A session that is saved at each request lives for a week, and there is no other limit to set.
func TestGorillaHasNoCap(t *testing.T) {
	s, server := redisSessions(t)
	synctest.Test(t, func(t *testing.T) {
		cookie := login(t, s)
		for began := time.Now(); time.Since(began) < 7*24*time.Hour; {
			pass(server, 10*time.Minute)
			cookie = save(t, open(t, s, cookie))
		}
		if user := open(t, s, cookie).Values["user"]; user != 42 {
			t.Errorf("after a week it is the session of user %v", user)
		}
	})
}

// A session that is read and not saved ends although it is in use.
func TestGorillaReadKeepsNothingAlive(t *testing.T) {
	s, server := redisSessions(t)
	synctest.Test(t, func(t *testing.T) {
		cookie := login(t, s)
		for range 3 {
			pass(server, 9*time.Minute)
			open(t, s, cookie)
		}
		if session := open(t, s, cookie); !session.IsNew {
			t.Error("it lives without a write at each read")
		}
	})
}

// A slow request that began before the logout saves the session again, and its cookie with it.
func TestGorillaLogoutIsUndone(t *testing.T) {
	s, _ := redisSessions(t)
	cookie := login(t, s)
	slow, logout := open(t, s, cookie), open(t, s, cookie)
	logout.Options.MaxAge = -1
	save(t, logout)
	save(t, slow)
	if user := open(t, s, cookie).Values["user"]; user != 42 {
		t.Errorf("after the logout the cookie opens the session of user %v", user)
	}
}

// Of two requests that change different values, the later one undoes the other's change.
func TestGorillaLosesAnUpdate(t *testing.T) {
	s, _ := redisSessions(t)
	cookie := login(t, s)
	first, second := open(t, s, cookie), open(t, s, cookie)
	first.Values["cart"] = "a book"
	second.Values["language"] = "en"
	save(t, first)
	save(t, second)
	if cart := open(t, s, cookie).Values["cart"]; cart != nil {
		t.Errorf("the cart has %v", cart)
	}
}

// A session gets a new token by a new ID. The one before goes on to open what it opened.
func TestGorillaRotationLeavesTheOldToken(t *testing.T) {
	s, _ := redisSessions(t)
	before := login(t, s)
	session := open(t, s, before)
	session.ID = ""
	after := save(t, session)
	if user := open(t, s, before).Values["user"]; user != 42 || after.Value == before.Value {
		t.Errorf("the token before opens the session of user %v", user)
	}
}

// A session that timed out and one that was logged out look alike: new, and without an error.
func TestGorillaDeathsLookAlike(t *testing.T) {
	s, server := redisSessions(t)
	s.SetMaxAge(60 * 60) // of the cookie, so that the record alone decides
	s.Options.MaxAge = 20 * 60
	synctest.Test(t, func(t *testing.T) {
		idle := login(t, s)
		pass(server, 21*time.Minute)
		out := login(t, s)
		logout := open(t, s, out)
		logout.Options.MaxAge = -1
		save(t, logout)
		for _, cookie := range []*http.Cookie{idle, out} {
			r := httptest.NewRequest("GET", "/", nil)
			r.AddCookie(cookie)
			if session, err := s.New(r, "session"); err != nil || !session.IsNew || len(session.Values) != 0 {
				t.Errorf("%v, %v", session.Values, err)
			}
		}
	})
}

// No method of the store takes a user or lists sessions, and one logout leaves the user's others.
func TestGorillaEndsOneSession(t *testing.T) {
	s, _ := redisSessions(t)
	stolen, own := login(t, s), login(t, s)
	logout := open(t, s, own)
	logout.Options.MaxAge = -1
	save(t, logout)
	if user := open(t, s, stolen).Values["user"]; user != 42 {
		t.Errorf("the other cookie opens the session of user %v", user)
	}
	for m := range reflect.TypeOf(s).Methods() {
		for _, word := range []string{"User", "All", "List", "Iterate", "Revoke"} {
			if strings.Contains(m.Name, word) {
				t.Errorf("RediStore has %s", m.Name)
			}
		}
	}
}

// In gin-contrib/sessions, whose redis store is redistore, a request that changes one value undoes what
// another has changed during it.
func TestGinLosesAnUpdate(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	s, err := ginredis.NewStore(1, "tcp", miniredis.RunT(t).Addr(), "", "", []byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	engine := gin.New()
	engine.Use(sessions.Sessions("session", s))
	var cookie *http.Cookie
	request := func(path string) string {
		r, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
		if cookie != nil {
			r.AddCookie(cookie)
		}
		engine.ServeHTTP(w, r)
		if set := w.Result().Cookies(); len(set) > 0 {
			cookie = set[len(set)-1]
		}
		return w.Body.String()
	}
	set := func(c *gin.Context, key string, during func()) {
		session := sessions.Default(c)
		session.Get(key) // loads it
		during()
		session.Set(key, "set")
		_ = session.Save()
	}
	engine.GET("/login", func(c *gin.Context) { set(c, "user", func() {}) })
	engine.GET("/cart", func(c *gin.Context) { set(c, "cart", func() {}) })
	engine.GET("/language", func(c *gin.Context) { set(c, "language", func() { request("/cart") }) })
	engine.GET("/", func(c *gin.Context) { c.String(200, "%v", sessions.Default(c).Get("cart")) })
	request("/login")
	request("/language")
	if cart := request("/"); cart != "<nil>" {
		t.Errorf("the cart has %s", cart)
	}
}
