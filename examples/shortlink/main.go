// Shortlink is a short-link service whose links live as long as people follow them. A link
// lives for 30 days after its last visit, and for a year at most. If the store retains dead
// links, a page says for 30 days that the link has died. After that it is as if the link
// had never existed.
//
//	go run ./examples/shortlink -driver postgres
//	curl -d url=https://go.dev http://localhost:8081/
//	curl -i http://localhost:8081/<id>
//
// The page at http://localhost:8081/ does the same in a browser.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/examples/internal/web"
	"github.com/slidingttl/slidingttl/middleware/touch"
	"github.com/slidingttl/slidingttl/slidingttl"
)

const day = 24 * time.Hour

var policy = slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 365 * day, Slack: day}

func main() {
	addr := flag.String("addr", "localhost:8081", "address to listen on")
	choice := backend.Choice{}
	choice.Flags()
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, choice); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addr string, choice backend.Choice) (err error) {
	d, done, err := open(ctx, choice)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	links, err := slidingttl.New(d, policy, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, links.Close(context.Background())) }()
	touches, err := touch.New(links, touch.PathValue("id"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, touches.Close(context.Background())) }()

	server := &http.Server{Addr: addr, Handler: web.Within(5*time.Second, routes(links, touches)), ReadHeaderTimeout: 10 * time.Second}
	log.Printf("listening on http://%s", addr)
	return web.Serve(ctx, server, server.ListenAndServe)
}

func routes(links *slidingttl.Store[string], touches *touch.Toucher) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { show(w, http.StatusOK, home) })
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) {
		target, err := url.Parse(r.PostFormValue("url"))
		if err != nil || target.Host == "" || target.Scheme != "https" && target.Scheme != "http" {
			http.Error(w, "url must be an absolute http or https address", http.StatusBadRequest)
			return
		}
		id := rand.Text()[:10]
		if err := links.Insert(r.Context(), id, target.String()); err != nil {
			unavailable(w, err)
			return
		}
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			show(w, http.StatusCreated, fmt.Sprintf(`<p>The short link is <a href="/%s">/%[1]s</a>.`, id)+home)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintln(w, "/"+id)
	})
	// The redirect reads by Peek. The middleware touches the link after the visitor was
	// redirected.
	mux.Handle("GET /{id}", touches.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		link, err := links.Peek(r.Context(), r.PathValue("id"))
		switch {
		case errors.Is(err, slidingttl.ErrNotFound):
			missing(w, r, links)
		case err != nil:
			unavailable(w, err)
		default:
			http.Redirect(w, r, link.Value, http.StatusFound)
		}
	})))
	return mux
}

// missing answers for a link that does not exist, or has died: the store retains dead links
// for a while. Caches must not keep either answer, because the link may be created again.
func missing(w http.ResponseWriter, r *http.Request, links *slidingttl.Store[string]) {
	link, err := links.History(r.Context(), r.PathValue("id"))
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case err == nil:
		why := "Nobody followed it for 30 days."
		if link.Cause == slidingttl.ReadDiedOfAge {
			why = "It was a year old."
		}
		show(w, http.StatusGone, fmt.Sprintf("<p>This link expired on %s. %s\n", link.DiedAt.Time().Format("2 January 2006"), why))
	case errors.Is(err, slidingttl.ErrAlive): // made anew just now
		http.Redirect(w, r, r.URL.String(), http.StatusFound)
	case errors.Is(err, slidingttl.ErrNotFound):
		http.NotFound(w, r)
	default:
		unavailable(w, err)
	}
}

// home is the form of the page at /.
const home = `
<form method="post">
<p><label>Address <input name="url" type="url" required placeholder="https://go.dev"></label> <button>Shorten</button>
</form>
<p>A link lives for 30 days after its last visit, and for a year at most.
`

// show answers with a page.
func show(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width">
<title>Short links</title><style>:root { color-scheme: light dark; font-family: sans-serif }</style><main><h1>Short links</h1>%s</main>`, body)
}

func unavailable(w http.ResponseWriter, err error) {
	log.Print(err)
	http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
}
