package frameworks

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/slidingttl/slidingttl/middleware/session"
)

func underChi(sessions *session.Manager[Data]) http.Handler {
	//snippet chi
	r := chi.NewRouter()
	r.Use(sessions.Middleware)
	r.Post("/login", func(w http.ResponseWriter, r *http.Request) {
		// ... after the password was checked:
		if err := sessions.Login(r.Context(), session.Login{User: r.FormValue("user")}, nil); err != nil {
			http.Error(w, "please try again", http.StatusServiceUnavailable)
		}
	})
	r.With(sessions.Require("/login")).Get("/account", func(w http.ResponseWriter, r *http.Request) {
		s, err := sessions.Get(r.Context())
		if err != nil {
			return // answered by Options.ErrorHandler
		}
		_, _ = w.Write([]byte("hello, " + s.User))
	})
	r.Route("/api", func(r chi.Router) {
		r.Use(sessions.Over(session.Bearer{}), sessions.Require(""))
		r.Get("/account", account)
	})
	//end
	return r
}
