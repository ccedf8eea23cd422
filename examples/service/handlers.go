package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// profile is a record's value.
type profile struct {
	Name string `json:"name" dynamodbav:"name"`
}

// storeName is what the store is called in metrics and in the file of policies.
const storeName = "profiles"

// profiles is the repository that the handlers use.
type profiles struct{ store *slidingttl.Store[profile] }

func (p profiles) get(ctx context.Context, id string) (profile, error) { return p.store.Get(ctx, id) }

func (p profiles) put(ctx context.Context, id string, v profile) error {
	return p.store.Upsert(ctx, id, v)
}

func (p profiles) delete(ctx context.Context, id string) error { return p.store.Delete(ctx, id) }

const mostBody = 1 << 20

func routes(p profiles) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", page("Profiles", `<p>Each profile lives by a policy of two limits. Try in a shell:
<pre tabindex="0">curl -X PUT -d '{"name":"ann"}' http://HOST/profiles/4711
curl http://HOST/profiles/4711
curl -X DELETE http://HOST/profiles/4711</pre>`))
	mux.HandleFunc("GET /profiles/{id}", func(w http.ResponseWriter, r *http.Request) {
		v, err := p.get(r.Context(), r.PathValue("id"))
		if err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // the client may have gone
	})
	mux.HandleFunc("PUT /profiles/{id}", func(w http.ResponseWriter, r *http.Request) {
		var v profile
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody)).Decode(&v); err != nil {
			http.Error(w, "the body must be a profile as JSON", http.StatusBadRequest)
			return
		}
		if err := p.put(r.Context(), r.PathValue("id"), v); err != nil {
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE /profiles/{id}", func(w http.ResponseWriter, r *http.Request) {
		if err := p.delete(r.Context(), r.PathValue("id")); err != nil {
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// page is a handler that shows body, with the address that it was asked at for HOST.
func page(title, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := strings.ReplaceAll(body, "HOST", html.EscapeString(r.Host))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width">
<title>%s</title><style>:root { color-scheme: light dark; font-family: sans-serif } pre { overflow-x: auto }</style><main><h1>%[1]s</h1>%s</main>`, title, body)
	}
}

// refuse answers for a call that failed.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	switch {
	case errors.Is(err, slidingttl.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, slidingttl.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, slidingttl.ErrConflict):
		status = http.StatusConflict
	}
	if failed, ok := w.(*watched); ok && status == http.StatusServiceUnavailable {
		failed.err = err
	}
	http.Error(w, http.StatusText(status), status)
}

// checkTimeout bounds what /readyz asks of the store.
const checkTimeout = 2 * time.Second

// adminRoutes are for operators, on a separate address that answers until the very end of a
// shutdown.
func (s *service) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", page("For operators", `<ul>
<li><a href="/metrics">/metrics</a> for Prometheus
<li><a href="/healthz">/healthz</a>: the process is alive
<li><a href="/readyz">/readyz</a>: the store is as it should be
</ul>`))
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.signals.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {}) // alive, whatever the store does
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		if err := s.store.Check(ctx); err != nil {
			s.log.WarnContext(ctx, "not ready", "error", err)
			http.Error(w, "the store is not as it should be", http.StatusServiceUnavailable)
		}
	})
	return mux
}
