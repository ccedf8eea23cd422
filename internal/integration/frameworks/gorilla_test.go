package frameworks

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"

	ginsessions "github.com/gin-contrib/sessions"
	"github.com/gin-contrib/sessions/tester"
	"github.com/gin-gonic/gin"
	"github.com/gorilla/sessions"
	echosession "github.com/labstack/echo-contrib/session"
	"github.com/labstack/echo/v4"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/gorillastore"
	"github.com/slidingttl/slidingttl/middleware/session"
)

// gorillaStore returns a store for the programs below.
func gorillaStore(t *testing.T) *gorillastore.Store {
	d, err := memory.New[session.Record](nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := gorillastore.New(d, &gorillastore.Options{Login: func(s *sessions.Session) session.Login {
		user, _ := s.Values["user"].(string)
		return session.Login{User: user}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Sessions().Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// TestGinContrib runs the tests that gin-contrib/sessions has for its stores.
func TestGinContrib(t *testing.T) {
	store := func(t *testing.T) ginsessions.Store {
		return gorillastore.Gin[ginsessions.Options]{Store: gorillaStore(t)}
	}
	t.Run("GetSet", func(t *testing.T) { tester.GetSet(t, store) })
	t.Run("DeleteKey", func(t *testing.T) { tester.DeleteKey(t, store) })
	t.Run("Flashes", func(t *testing.T) { tester.Flashes(t, store) })
	t.Run("Clear", func(t *testing.T) { tester.Clear(t, store) })
	t.Run("Options", func(t *testing.T) { tester.Options(t, store) })
	t.Run("Many", func(t *testing.T) { tester.Many(t, store) })
}

// The same program over each adapter: ?user=ann logs in, /flash leaves a message, / answers with the
// user and the messages, /logout ends the session.

func gorillaProgram(store sessions.Store) http.Handler {
	serve := func(change func(*sessions.Session, *http.Request)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			s, err := store.Get(r, "mysession")
			if err == nil {
				change(s, r)
				err = s.Save(r, w)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			user, _ := s.Values["user"].(string)
			_, _ = io.WriteString(w, user+said)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/login", serve(func(s *sessions.Session, r *http.Request) { s.Values["user"] = r.FormValue("user") }))
	mux.HandleFunc("/flash", serve(func(s *sessions.Session, _ *http.Request) { s.AddFlash(said) }))
	mux.HandleFunc("/logout", serve(func(s *sessions.Session, _ *http.Request) {
		s.Options.MaxAge = -1
		delete(s.Values, "user")
	}))
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		s, err := store.Get(r, "mysession")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer, _ := s.Values["user"].(string)
		for _, f := range s.Flashes() {
			answer += f.(string)
		}
		if err := s.Save(r, w); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, answer)
	})
	return mux
}

const said = " was told"

func ginProgram(store sessions.Store) http.Handler {
	router := gin.New()
	router.Use(ginsessions.Sessions("mysession", gorillastore.Gin[ginsessions.Options]{Store: store.(*gorillastore.Store)}))
	save := func(c *gin.Context, s ginsessions.Session) {
		user, _ := s.Get("user").(string)
		for _, f := range s.Flashes() {
			user += f.(string)
		}
		if err := s.Save(); err != nil {
			c.String(http.StatusInternalServerError, err.Error())
			return
		}
		c.String(http.StatusOK, user)
	}
	router.GET("/", func(c *gin.Context) { save(c, ginsessions.Default(c)) })
	router.GET("/login", func(c *gin.Context) {
		s := ginsessions.Default(c)
		s.Set("user", c.Query("user"))
		save(c, s)
	})
	router.GET("/flash", func(c *gin.Context) {
		s := ginsessions.Default(c)
		s.AddFlash(said)
		if err := s.Save(); err != nil {
			c.String(http.StatusInternalServerError, err.Error())
		}
	})
	router.GET("/logout", func(c *gin.Context) {
		s := ginsessions.Default(c)
		s.Clear()
		s.Options(ginsessions.Options{Path: "/", MaxAge: -1})
		save(c, s)
	})
	return router
}

func echoProgram(store sessions.Store) http.Handler {
	e := echo.New()
	e.Use(echosession.Middleware(store))
	serve := func(change func(*sessions.Session, echo.Context)) echo.HandlerFunc {
		return func(c echo.Context) error {
			s, err := echosession.Get("mysession", c)
			if err != nil {
				return err
			}
			change(s, c)
			answer, _ := s.Values["user"].(string)
			if c.Path() != "/flash" {
				for _, f := range s.Flashes() {
					answer += f.(string)
				}
			}
			if err := s.Save(c.Request(), c.Response()); err != nil {
				return err
			}
			return c.String(http.StatusOK, answer)
		}
	}
	e.GET("/", serve(func(*sessions.Session, echo.Context) {}))
	e.GET("/login", serve(func(s *sessions.Session, c echo.Context) { s.Values["user"] = c.QueryParam("user") }))
	e.GET("/flash", serve(func(s *sessions.Session, _ echo.Context) { s.AddFlash(said) }))
	e.GET("/logout", serve(func(s *sessions.Session, _ echo.Context) {
		s.Options.MaxAge = -1
		delete(s.Values, "user")
	}))
	return e
}

// TestGorillaPrograms runs programs of gorilla, gin-contrib and echo-contrib, and one over gorilla's own
// store, whose clients see the same.
func TestGorillaPrograms(t *testing.T) {
	for name, program := range map[string]func(sessions.Store) http.Handler{
		"gorilla": gorillaProgram, "gin": ginProgram, "echo": echoProgram,
		"gorilla over files": func(sessions.Store) http.Handler {
			return gorillaProgram(sessions.NewFilesystemStore(t.TempDir(), []byte("secret-key")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, own := gorillaStore(t), name != "gorilla over files"
			server := httptest.NewTLSServer(program(store))
			defer server.Close()
			browser := func() func(path, want string) {
				client := *server.Client()
				client.Jar, _ = cookiejar.New(nil)
				return func(path, want string) {
					t.Helper()
					r, err := client.Get(server.URL + path)
					if err != nil {
						t.Fatal(err)
					}
					defer r.Body.Close()
					body, err := io.ReadAll(r.Body)
					if err != nil || r.StatusCode != http.StatusOK {
						t.Fatalf("%s: %s %s, %v", path, r.Status, body, err)
					}
					if path == "/" && string(body) != want {
						t.Errorf("%q, want %q", body, want)
					}
				}
			}
			phone, desk, bob := browser(), browser(), browser()
			phone("/", "")
			for _, client := range []func(path, want string){phone, desk} {
				client("/flash", "")
				client("/login?user=ann", "")
			}
			bob("/login?user=bob", "")
			if strings.HasPrefix(name, "gorilla") { // its login shows no messages
				phone("/", "ann"+said)
			}
			phone("/", "ann")
			phone("/flash", "")
			phone("/", "ann"+said)
			phone("/", "ann")
			if !own {
				phone("/logout", "")
				phone("/", "")
				bob("/", "bob")
				return
			}
			if list, err := store.Sessions().List(t.Context(), "ann"); err != nil || len(list) != 2 {
				t.Errorf("%d sessions, %v", len(list), err)
			}
			phone("/logout", "")
			phone("/", "")
			if err := store.Sessions().RevokeAll(t.Context(), "ann"); err != nil {
				t.Error(err)
			}
			desk("/", "")
			bob("/", "bob")
		})
	}
}
