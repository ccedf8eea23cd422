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

var remember = slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour, Slack: 24 * time.Hour}

//go:embed templates static
var files embed.FS

var functions = template.FuncMap{
	"moment":  moment,
	"machine": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"json": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	},
}

type app struct {
	tally    tally
	sessions *session.Manager[Data]
	pages    *template.Template
	now      func() time.Time
	policies [2]slidingttl.Policy // of sessions that are not, and that are, remembered
	poll     time.Duration        // between two requests of the polling widget
}

func newApp(d driver.Driver[session.Record], opts session.Options, poll time.Duration) (*app, error) {
	opts.Remember = remember
	a := &app{now: time.Now, poll: poll, policies: [2]slidingttl.Policy{opts.Policy, opts.Remember}}
	if opts.Now != nil {
		a.now = opts.Now
	}
	// The page polls its status every few seconds. A page left open must not keep its user
	// logged in.
	opts.Passive = func(r *http.Request) bool { return r.URL.Path == "/status" }
	opts.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		log.Printf("%s: %v", r.URL.Path, err)
		text := "We cannot read your session right now. Please try again in a moment."
		if errors.Is(err, session.ErrInsecure) {
			text = "Over plain http this example is for browsers on this machine, at http://localhost. For others start it with -cert and -key."
		}
		a.render(w, http.StatusServiceUnavailable, "error", failure{"Sorry", text})
	}
	var err error
	if a.pages, err = template.New("").Funcs(functions).ParseFS(files, "templates/*.html"); err != nil {
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
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.render(w, http.StatusNotFound, "error", failure{"Not found", "There is no such page."})
	})

	// SameSite=Lax keeps other sites' forms from being sent with the session. This also
	// refuses requests from other origins of the same site.
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.render(w, http.StatusForbidden, "error", failure{"Refused", "That request came from another site (it was cross-origin), and nothing was changed."})
	}))
	// Outside the session middleware, so that an error page has its style whatever failed.
	outer := http.NewServeMux()
	outer.Handle("GET /static/", http.FileServerFS(files))
	outer.Handle("/", protection.Handler(a.sessions.Middleware(mux)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		outer.ServeHTTP(w, r)
	})
}

// failure is what an error page says.
type failure struct{ Title, Text string }

// attempt is what the login page shows: a message, or what was wrong with the last try.
type attempt struct {
	Flash, Wrong, Name string
	Remember           bool
}

// view is what the page of a logged-in user shows.
type view struct {
	Session session.Session[Data]
	Devices []session.Info
	Flash   string
	Line    timeline
	Poll    int64
}

func (a *app) home(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	s, err := a.get(r)
	if err != nil {
		return // answered by ErrorHandler
	}
	flash, err := session.Take(ctx, a.sessions, func(d *Data) *string { return &d.Flash })
	if err != nil && !errors.Is(err, session.ErrEnded) {
		a.failed(w, r, err)
		return
	}
	if s.User == "" {
		if flash == "" && hasCookie(r) {
			flash = "Your session has ended: it was idle for too long, reached its absolute timeout, or was ended elsewhere."
		}
		a.render(w, http.StatusOK, "login", attempt{Flash: flash})
		return
	}
	devices, err := a.sessions.List(ctx, s.User)
	if err != nil {
		a.failed(w, r, err)
		return
	}
	a.render(w, http.StatusOK, "home", view{
		Session: s, Devices: devices, Flash: flash, Line: a.timelineOf(s, a.now()), Poll: a.poll.Milliseconds(),
	})
}

// get returns the session of the request, and counts that it was read.
func (a *app) get(r *http.Request) (session.Session[Data], error) {
	s, err := a.sessions.Get(r.Context())
	if err == nil && s.User != "" {
		a.tally.read(s.Info, a.now())
	}
	return s, err
}

// status returns how long the session has left, without extending it.
func (a *app) status(w http.ResponseWriter, r *http.Request) {
	s, err := a.get(r)
	if err != nil {
		return // answered by ErrorHandler
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if s.User == "" {
		w.WriteHeader(http.StatusUnauthorized)
	}
	_ = json.NewEncoder(w).Encode(a.timelineOf(s, time.Time{}))
}

func (a *app) login(w http.ResponseWriter, r *http.Request) {
	user := strings.ToLower(strings.TrimSpace(r.PostFormValue("user")))
	right := subtle.ConstantTimeCompare([]byte(r.PostFormValue("password")), []byte(password)) == 1
	if user == "" || len(user) > 40 || !right {
		a.render(w, http.StatusForbidden, "login", attempt{
			Wrong: "That name and password do not match.", Name: r.PostFormValue("user"), Remember: r.PostFormValue("remember") != "",
		})
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
	s, err := a.get(r)
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
	s, err := a.get(r)
	if err != nil {
		return // answered by ErrorHandler
	}
	if s.User != "" {
		err = a.sessions.RevokeAll(r.Context(), s.User, s.ID)
	}
	a.done(w, r, err)
}

// change updates the session, if its user is logged in.
func (a *app) change(w http.ResponseWriter, r *http.Request, f func(*Data) error) {
	s, err := a.get(r)
	if err != nil {
		return // answered by ErrorHandler
	}
	if s.User != "" {
		err = a.sessions.Update(r.Context(), f)
	}
	a.done(w, r, err)
}

// done redirects the browser to the page, which shows the current state, also if the
// session ended meanwhile.
func (a *app) done(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil && !errors.Is(err, session.ErrEnded) {
		a.failed(w, r, err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (a *app) failed(w http.ResponseWriter, r *http.Request, err error) {
	log.Printf("%s: %v", r.URL.Path, err)
	a.render(w, http.StatusServiceUnavailable, "error", failure{"Sorry", "That did not work. Please try again in a moment."})
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

// hasCookie reports whether the browser has a session's cookie, even if the session has
// ended.
func hasCookie(r *http.Request) bool {
	return len(r.CookiesNamed("__Host-session"))+len(r.CookiesNamed("session")) > 0
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
