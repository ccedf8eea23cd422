package session_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
)

func Example() {
	type Data struct {
		Cart []string `json:"cart"`
	}
	d, err := memory.New[session.Record](nil)
	if err != nil {
		panic(err)
	}
	sessions, err := session.New[Data](d, nil)
	if err != nil {
		panic(err)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("/add", func(w http.ResponseWriter, r *http.Request) {
		err := sessions.Update(r.Context(), func(d *Data) error {
			d.Cart = append(d.Cart, r.FormValue("item"))
			return nil
		})
		if err != nil {
			http.Error(w, "please try again", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		// ... after the password was checked:
		if err := sessions.Login(r.Context(), session.Login{User: "ann"}, nil); err != nil {
			http.Error(w, "please try again", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/cart", func(w http.ResponseWriter, r *http.Request) {
		s, err := sessions.Get(r.Context())
		if err != nil {
			return // answered by Options.ErrorHandler
		}
		fmt.Printf("user %q, cart %v\n", s.User, s.Data.Cart)
	})

	server := httptest.NewTLSServer(sessions.Middleware(mux))
	defer server.Close()
	browser := server.Client()
	browser.Jar, _ = cookiejar.New(nil)
	for _, path := range []string{"/cart", "/add?item=milk", "/cart", "/login", "/add?item=bread", "/cart"} {
		res, err := browser.Get(server.URL + path)
		if err != nil {
			panic(err)
		}
		res.Body.Close()
	}

	if err := sessions.Close(context.Background()); err != nil {
		panic(err)
	}
	if err := d.Close(); err != nil {
		panic(err)
	}
	// Output:
	// user "", cart []
	// user "", cart [milk]
	// user "ann", cart [milk bread]
}
