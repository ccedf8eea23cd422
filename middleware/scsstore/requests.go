package scsstore

import (
	"context"
	"net/http"
	"sync"
)

// requests knows the sessions that requests under way have found: what they commit is a change, and
// no new session. scs commits both alike.
type requests struct {
	mu    sync.Mutex
	found map[string]map[<-chan struct{}]bool // by key, the Done of the requests' contexts
}

// begin notes that a request has found the session under key. It ends with ctx, which net/http ends with the request;
// another context may last longer, and is not noted.
func (r *requests) begin(ctx context.Context, key string) {
	if ctx.Done() == nil || ctx.Value(http.ServerContextKey) == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.found == nil {
		r.found = map[string]map[<-chan struct{}]bool{}
	}
	if r.found[key] == nil {
		r.found[key] = map[<-chan struct{}]bool{}
	}
	if !r.found[key][ctx.Done()] {
		r.found[key][ctx.Done()] = true
		context.AfterFunc(ctx, func() { r.end(key, ctx.Done()) })
	}
}

func (r *requests) end(key string, done <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.found[key], done); len(r.found[key]) == 0 {
		delete(r.found, key)
	}
}

// way reports whether a request is under way that has found the session under key.
func (r *requests) way(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.found[key]) > 0
}
