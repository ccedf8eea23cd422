package couchbase_test

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/couchbase/gocb/v2"
)

// recorder is a tracer that notes the parents of the requested spans.
type recorder struct {
	mu      sync.Mutex // guards parents
	parents []string
}

func (r *recorder) RequestSpan(parent gocb.RequestSpanContext, _ string) gocb.RequestSpan {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parents = append(r.parents, fmt.Sprint(parent))
	return span("child")
}

func (r *recorder) saw(parent string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.parents, parent)
}

func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parents = nil
}

type spanKey struct{}

// span is a span with only a name.
type span string

func (s span) End()                             {}
func (s span) Context() gocb.RequestSpanContext { return string(s) }
func (s span) AddEvent(string, time.Time)       {}
func (s span) SetAttribute(string, any)         {}
