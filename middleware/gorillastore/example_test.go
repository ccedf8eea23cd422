package gorillastore_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"time"

	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/gorillastore"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// The handlers are those of any program on gorilla/sessions.
func Example() {
	d, err := memory.New[session.Record](nil) // or a driver of another store
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	store, err := gorillastore.New(d, &gorillastore.Options{
		Sessions: session.Options{Policy: slidingttl.Policy{
			IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute,
		}},
		Login: func(s *gorilla.Session) session.Login {
			user, _ := s.Values["user"].(string)
			return session.Login{User: user}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Sessions().Close(context.Background())

	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		s, err := store.Get(r, "site")
		if err == nil {
			s.Values["user"] = r.FormValue("user") // after the password was checked
			err = s.Save(r, w)
		}
		if err != nil {
			http.Error(w, "please try again", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		s, err := store.Get(r, "site")
		if err != nil {
			http.Error(w, "please try again", http.StatusServiceUnavailable)
			return
		}
		fmt.Printf("user %v\n", s.Values["user"])
	})
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	browser := server.Client()
	browser.Jar, _ = cookiejar.New(nil)
	for _, path := range []string{"/", "/login?user=ann", "/"} {
		r, err := browser.Get(server.URL + path)
		if err != nil {
			log.Fatal(err)
		}
		r.Body.Close()
	}
	if err := store.Sessions().RevokeAll(context.Background(), "ann"); err != nil { // after a change of password
		log.Fatal(err)
	}
	r, err := browser.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	r.Body.Close()
	// Output:
	// user <nil>
	// user ann
	// user <nil>
}

// Two requests that count at once are both counted.
func ExampleOptions_merge() {
	store, err := gorillastore.New(nil, &gorillastore.Options{
		Sessions: session.Options{Logger: slog.New(slog.DiscardHandler)},
		Merge: func(key, was, stored, saved any) (any, error) {
			if key != "count" {
				return saved, nil // the later request wins, as on other stores
			}
			n := func(v any) int { i, _ := v.(int); return i }
			return n(stored) + n(saved) - n(was), nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Sessions().Close(context.Background())
	v := gorilla.NewSession(store, "site")
	v.Values["count"] = 1
	r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
	if err := v.Save(r, w); err != nil {
		log.Fatal(err)
	}
	var both [2]*gorilla.Session
	for i := range both {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Cookie", w.Header().Get("Set-Cookie"))
		if both[i], err = store.Get(r, "site"); err != nil {
			log.Fatal(err)
		}
	}
	for _, v := range both {
		v.Values["count"] = v.Values["count"].(int) + 1
		if err := v.Save(r, w); err != nil {
			log.Fatal(err)
		}
		fmt.Println(v.Values["count"])
	}
	// Output:
	// 2
	// 3
}
