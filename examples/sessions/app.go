package main

import (
	"bytes"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Data is what the app keeps in a session.
type Data struct {
	Notes []string `json:"notes,omitempty"`
	Flash string   `json:"flash,omitempty"` // shown once
}

const (
	password = "sliding" // the demo's, for every name
	maxNotes = 8
	maxNote  = 120 // bytes
)

//go:embed templates static
var files embed.FS

type app struct {
	sessions *session.Manager[Data]
	pages    *template.Template
	now      func() time.Time
	poll     time.Duration // between two requests of the polling widget
}

func newApp(d driver.Driver[session.Record], opts session.Options, poll time.Duration) (*app, error) {
	a := &app{now: time.Now, poll: poll}
	if opts.Now != nil {
		a.now = opts.Now
	}
	// The page asks for its status every few seconds. That somebody left it
	// open must not keep them logged in.
	opts.Passive = func(r *http.Request) bool { return r.URL.Path == "/status" }
	opts.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		log.Printf("%s: %v", r.URL.Path, err)
		a.render(w, http.StatusServiceUnavailable, "error", "We cannot read your session right now. Please try again in a moment.")
	}
	var err error
	if a.pages, err = template.New("").ParseFS(files, "templates/*.html"); err != nil {
		return nil, err
	}
	if a.sessions, err = session.New[Data](d, &opts); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *app) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.home)
	mux.HandleFunc("GET /status", a.status)
	mux.HandleFunc("POST /login", a.login)
	mux.HandleFunc("POST /logout", a.logout)
	mux.HandleFunc("POST /note", a.note)
	mux.HandleFunc("POST /renew", a.renew)
	mux.HandleFunc("POST /revoke", a.revoke)
	mux.HandleFunc("POST /revoke-others", a.revokeOthers)
	mux.Handle("GET /static/", http.FileServerFS(files))

	// SameSite=Lax keeps other sites' forms from being sent with the session;
	// this also keeps out what comes from other origins of the same site.
	protected := http.NewCrossOriginProtection().Handler(a.sessions.Middleware(mux))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		protected.ServeHTTP(w, r)
	})
}

// view is what the page of a logged-in user shows.
type view struct {
	Session session.Session[Data]
	Devices []session.Info
	Flash   string
	Clock   clock
	Poll    int64
}

// clock is what is left of a session, in milliseconds, and of how much.
type clock struct {
	Idle     int64 `json:"idle"`
	Absolute int64 `json:"absolute"`
	Lifetime int64 `json:"lifetime"`
}

func (a *app) clockOf(s session.Session[Data]) clock {
	now := a.now()
	return clock{
		Idle:     s.IdleExpiry.Sub(now).Milliseconds(),
		Absolute: s.AbsoluteExpiry.Sub(now).Milliseconds(),
		Lifetime: s.AbsoluteExpiry.Sub(s.CreatedAt).Milliseconds(),
	}
}

func (a *app) home(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	s, err := a.sessions.Get(ctx)
	if err != nil {
		return // answered by ErrorHandler
	}
	flash, err := session.Take(ctx, a.sessions, func(d *Data) *string { return &d.Flash })
	if err != nil && !errors.Is(err, session.ErrEnded) {
		a.failed(w, r, err)
		return
	}
	if s.User == "" {
		a.render(w, http.StatusOK, "login", view{Flash: flash})
		return
	}
	devices, err := a.sessions.List(ctx, s.User)
	if err != nil {
		a.failed(w, r, err)
		return
	}
	a.render(w, http.StatusOK, "home", view{
		Session: s, Devices: devices, Flash: flash, Clock: a.clockOf(s), Poll: a.poll.Milliseconds(),
	})
}

// status tells the polling widget what is left, without making it more.
func (a *app) status(w http.ResponseWriter, r *http.Request) {
	s, err := a.sessions.Get(r.Context())
	if err != nil {
		return // answered by ErrorHandler
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if s.User == "" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_ = json.NewEncoder(w).Encode(a.clockOf(s))
}

func (a *app) login(w http.ResponseWriter, r *http.Request) {
	user := strings.ToLower(strings.TrimSpace(r.PostFormValue("user")))
	right := subtle.ConstantTimeCompare([]byte(r.PostFormValue("password")), []byte(password)) == 1
	if user == "" || len(user) > 40 || !right {
		a.render(w, http.StatusForbidden, "login", view{Flash: "That name and password do not match."})
		return
	}
	err := a.sessions.Login(r.Context(), session.Login{
		User:     user,
		Label:    device(r.UserAgent()),
		Remember: r.PostFormValue("remember") != "",
	}, func(d *Data) error {
		d.Flash = "Welcome, " + user + ". This is a new session with a new token."
		return nil
	})
	a.done(w, r, err)
}

func (a *app) logout(w http.ResponseWriter, r *http.Request) {
	a.done(w, r, a.sessions.Destroy(r.Context()))
}

func (a *app) note(w http.ResponseWriter, r *http.Request) {
	a.change(w, r, func(d *Data) error {
		note := strings.TrimSpace(r.PostFormValue("note"))
		if note == "" || len(note) > maxNote {
			d.Flash = fmt.Sprintf("A note has 1 to %d characters.", maxNote)
			return nil
		}
		d.Notes = append(d.Notes, note)
		d.Notes = d.Notes[max(0, len(d.Notes)-maxNotes):]
		return nil
	})
}

func (a *app) renew(w http.ResponseWriter, r *http.Request) {
	if err := a.sessions.Renew(r.Context()); err != nil {
		a.done(w, r, err)
		return
	}
	a.change(w, r, func(d *Data) error {
		d.Flash = "Same session, new token. The absolute timeout did not move."
		return nil
	})
}

func (a *app) revoke(w http.ResponseWriter, r *http.Request) {
	s, err := a.sessions.Get(r.Context())
	if err != nil {
		return // answered by ErrorHandler
	}
	if s.User != "" {
		err = a.sessions.Revoke(r.Context(), s.User, r.PostFormValue("id"))
	}
	if errors.Is(err, slidingttl.ErrNotFound) {
		err = nil // gone already, or somebody else's
	}
	a.done(w, r, err)
}

func (a *app) revokeOthers(w http.ResponseWriter, r *http.Request) {
	s, err := a.sessions.Get(r.Context())
	if err != nil {
		return // answered by ErrorHandler
	}
	if s.User != "" {
		err = a.sessions.RevokeAll(r.Context(), s.User, s.ID)
	}
	a.done(w, r, err)
}

// change updates the session of a logged-in user, and of nobody else.
func (a *app) change(w http.ResponseWriter, r *http.Request, f func(*Data) error) {
	s, err := a.sessions.Get(r.Context())
	if err != nil {
		return // answered by ErrorHandler
	}
	if s.User != "" {
		err = a.sessions.Update(r.Context(), f)
	}
	a.done(w, r, err)
}

// done sends the browser back to the page, which shows how things are now: also
// when the session ended meanwhile.
func (a *app) done(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil && !errors.Is(err, session.ErrEnded) {
		a.failed(w, r, err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (a *app) failed(w http.ResponseWriter, r *http.Request, err error) {
	log.Printf("%s: %v", r.URL.Path, err)
	a.render(w, http.StatusServiceUnavailable, "error", "That did not work. Nothing was changed; please try again in a moment.")
}

func (a *app) render(w http.ResponseWriter, status int, page string, data any) {
	var body bytes.Buffer
	if err := a.pages.ExecuteTemplate(&body, page+".html", data); err != nil {
		log.Print(err)
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w)
}

// device names the browser and the system that a user agent says it is.
func device(agent string) string {
	pick := func(known ...string) string {
		for i := 0; i < len(known); i += 2 {
			if strings.Contains(agent, known[i]) {
				return known[i+1]
			}
		}
		return known[len(known)-1]
	}
	browser := pick("Edg", "Edge", "Firefox", "Firefox", "Chrom", "Chrome", "Safari", "Safari", "curl", "curl", "", "A browser")
	system := pick("Android", "Android", "iPhone", "iPhone", "iPad", "iPad", "Windows", "Windows", "Mac OS", "macOS", "Linux", "Linux", "", "an unknown system")
	return browser + " on " + system
}
