package gorillastore

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"weak"

	gorilla "github.com/gorilla/sessions"
)

// visit is what Save needs to know of the request that read a session.
type visit struct {
	manager context.Context // of the Manager. It does not keep the http request, whose registry keeps the session
	token   string
	read    []byte // the values as they were read; nil: none, or they did not decode
	bad     error  // why they did not decode
	failed  error  // why they could not be read
}

// visit returns a visit by a client with this token. It does no I/O.
func (s *Store) visit(token string) *visit {
	return &visit{manager: s.sessions.Load(context.Background(), token), token: token}
}

// context returns the context of r, by which the Manager finds the visit.
func (v *visit) context(r *http.Request) context.Context {
	return both{r.Context(), v.manager}
}

// both is a context with the values of another one too.
type both struct {
	context.Context
	manager context.Context
}

// Value implements context.Context.
func (b both) Value(key any) any {
	if v := b.manager.Value(key); v != nil {
		return v
	}
	return b.Context.Value(key)
}

// visits has the visit of each session that New has returned. A session has no field for it, and
// the request that it is saved with may be a copy of the one it was read with.
type visits struct {
	all sync.Map // weak.Pointer[gorilla.Session] to *visit
}

func (t *visits) add(s *gorilla.Session, v *visit) {
	key := weak.Make(s)
	if _, known := t.all.Swap(key, v); !known {
		runtime.AddCleanup(s, func(key weak.Pointer[gorilla.Session]) { t.all.Delete(key) }, key)
	}
}

// of returns nil for a session that New did not return.
func (t *visits) of(s *gorilla.Session) *visit {
	v, _ := t.all.Load(weak.Make(s))
	found, _ := v.(*visit)
	return found
}
