package scsstore

import (
	"context"
	"sync"
)

// requests knows the sessions that requests under way have found: what they commit is a change, and
// no new session. scs commits both alike.
type requests struct {
	mu    sync.Mutex
	found map[string]int // how many requests, by key
}

// begin notes that a request has found the session under key. It ends with ctx; one without an end is
// not noted.
func (r *requests) begin(ctx context.Context, key string) {
	if ctx.Done() == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.found == nil {
		r.found = map[string]int{}
	}
	r.found[key]++
	context.AfterFunc(ctx, func() { r.end(key) })
}

func (r *requests) end(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.found[key]--; r.found[key] == 0 {
		delete(r.found, key)
	}
}

// way reports whether a request is under way that has found the session under key.
func (r *requests) way(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.found[key] > 0
}
