package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	maxTitle = 80 // bytes
	maxText  = 500
	maxNotes = 100 // comments of an event
	maxLines = 50
	span     = 95 // days that a time line shows before now, and after it
)

//go:embed page.html style.css icon.svg
var files embed.FS

var pages = template.Must(template.ParseFS(files, "page.html"))

// view is what the page shows.
type view struct {
	About   string
	Rules   string
	Flash   string
	Refresh int // seconds; zero: not by itself
	Recent  []Recent
	Lines   []line
	More    int // lines that are not shown
	Costs   costs
	One     *line // the event that was visited, in place of all
}

func (e *Events) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", e.home)
	mux.HandleFunc("POST /event", e.begin)
	mux.HandleFunc("GET /event/{id}", e.visit)
	mux.HandleFunc("POST /event/{id}/comment", e.comment)
	mux.HandleFunc("POST /event/{id}/end", e.end)
	mux.Handle("GET /style.css", http.FileServerFS(files))
	mux.Handle("GET /icon.svg", http.FileServerFS(files))
	protected := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		protected.ServeHTTP(w, r)
	})
}

// home shows all events. Looking at it keeps none of them active.
func (e *Events) home(w http.ResponseWriter, r *http.Request) {
	ctx, now := r.Context(), driver.Floor(e.events.Now())
	v := view{}
	if r.URL.Query().Has("watch") {
		v.Refresh = max(1, int(math.Round(e.day.Seconds())))
	}
	var err error
	if v.Recent, err = e.Recent(ctx); err != nil {
		e.fail(w, r, err)
		return
	}
	all, err := e.All(ctx, now.Add(-span*e.day))
	if err != nil {
		e.fail(w, r, err)
		return
	}
	v.More = max(0, len(all)-maxLines)
	for _, s := range all[:len(all)-v.More] {
		v.Lines = append(v.Lines, e.draw(s, now))
	}
	e.render(w, http.StatusOK, v)
}

func (e *Events) begin(w http.ResponseWriter, r *http.Request) {
	title := strings.TrimSpace(r.PostFormValue("title"))
	if title == "" || len(title) > maxTitle {
		e.render(w, http.StatusBadRequest, view{Flash: fmt.Sprintf("A title has 1 to %d characters.", maxTitle)})
		return
	}
	if _, err := e.Begin(r.Context(), title); err != nil {
		e.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (e *Events) visit(w http.ResponseWriter, r *http.Request) {
	s, err := e.Visit(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, slidingttl.ErrNotFound):
		e.render(w, http.StatusNotFound, view{Flash: "There is no such event, or it is on its way to the archive."})
	case err != nil:
		e.fail(w, r, err)
	default:
		l := e.draw(s, driver.Floor(e.events.Now()))
		e.render(w, http.StatusOK, view{One: &l})
	}
}

func (e *Events) comment(w http.ResponseWriter, r *http.Request) {
	text := strings.TrimSpace(r.PostFormValue("text"))
	if text == "" || len(text) > maxText {
		e.render(w, http.StatusBadRequest, view{Flash: fmt.Sprintf("A comment has 1 to %d characters.", maxText)})
		return
	}
	e.written(w, r, e.Comment(r.Context(), r.PathValue("id"), text))
}

func (e *Events) end(w http.ResponseWriter, r *http.Request) {
	e.written(w, r, e.End(r.Context(), r.PathValue("id")))
}

// written answers a write to the event of r, which ended with err.
func (e *Events) written(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, errClosed), errors.Is(err, slidingttl.ErrNotFound):
		e.render(w, http.StatusConflict, view{Flash: "The event has ended. It can be read, and is not written to any more."})
	case errors.Is(err, errFull):
		e.render(w, http.StatusConflict, view{Flash: fmt.Sprintf("The event has %d comments, and takes no more.", maxNotes)})
	case err != nil:
		e.fail(w, r, err)
	default:
		http.Redirect(w, r, "/event/"+r.PathValue("id"), http.StatusSeeOther)
	}
}

func (e *Events) fail(w http.ResponseWriter, r *http.Request, err error) {
	log.Printf("%s: %v", r.Pattern, err)
	e.render(w, http.StatusServiceUnavailable, view{Flash: "That did not work. Please try again in a moment."})
}

func (e *Events) render(w http.ResponseWriter, status int, v view) {
	v.About, v.Costs = e.shelf.about, e.costs
	v.Rules = fmt.Sprintf("Active for 7 days after its last visit, and 30 at most, or until somebody ends it; then 7 days ended, closed to comments, and 53 days history; then in the archive. Listed as recent for 3. A day is %v here.", e.day)
	var body bytes.Buffer
	if err := pages.Execute(&body, v); err != nil {
		log.Print(err)
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w)
}

// line is an event as the page draws and tells it.
type line struct {
	Seen
	Bars []bar
	Says string
}

var causes = map[archive.Reason]string{
	archive.Idle:    "for nobody visited it",
	archive.Age:     "when it was 30 days old",
	archive.Deleted: "for somebody deleted it",
}

// bar is a stage on the line, by shares of its width.
type bar struct {
	Stage    Stage
	X, Width string
}

// draw draws the stages of an event: as they were, and will be if nobody visits it.
func (e *Events) draw(s Seen, now slidingttl.Instant) line {
	l := line{Seen: s}
	at := func(i slidingttl.Instant) float64 {
		return 50 + 50*min(1, max(-1, float64(i.Sub(now))/float64(span*e.day)))
	}
	add := func(stage Stage, from, to slidingttl.Instant) {
		if x, end := at(from), at(to); end > x {
			l.Bars = append(l.Bars, bar{stage, fmt.Sprintf("%.2f%%", x), fmt.Sprintf("%.2f%%", end-x)})
		}
	}
	leaves := s.Leaves
	if s.Stage == Archived {
		leaves = s.Entered
	}
	add(Active, s.Began, s.Ends)
	add(Ended, s.Ends, min(leaves, s.Ends.Add(e.ended)))
	add(History, s.Ends.Add(e.ended), leaves)
	if s.Stage == Archived {
		add(Archived, s.Entered, now.Add(span*e.day))
	}
	why := causes[s.Why]
	if s.Closed && s.Why == archive.Idle {
		why = "by hand" // which is a death as of idleness to the store
	}
	switch s.Stage {
	case Active:
		l.Says = fmt.Sprintf("for %s more, if nobody visits it", e.days(s.Ends.Sub(now)))
	case Ended:
		l.Says = fmt.Sprintf("ended %s ago, %s; closed to comments, readable for %s more", e.days(now.Sub(s.Ends)), why, e.days(s.Leaves.Sub(now)))
	case History:
		l.Says = fmt.Sprintf("ended %s ago, %s; readable for %s more", e.days(now.Sub(s.Ends)), why, e.days(s.Leaves.Sub(now)))
	case Archived:
		l.Says = fmt.Sprintf("ended %s ago, %s; in the archive for %s", e.days(now.Sub(s.Ends)), why, e.days(now.Sub(s.Entered)))
	}
	return l
}

// days is d in days of the example.
func (e *Events) days(d time.Duration) string {
	return fmt.Sprintf("%.1f days", max(0, float64(d)/float64(e.day)))
}
