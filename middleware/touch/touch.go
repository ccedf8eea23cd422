package touch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/middleware/internal/response"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// PathValue returns a key for New: the wildcard of that name in the pattern. A middleware that hands on another
// request, as sessions do, stands around this one: sessions.Middleware(mux) with touches.Middleware within the mux.
func PathValue(name string) func(*http.Request) string {
	return func(r *http.Request) string { return r.PathValue(name) }
}

// Options adjusts a Toucher. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// Wait makes the request wait for its touch, once the handler has returned. A
	// short answer leaves only after it.
	Wait bool

	// Workers bounds the touches in the background at once. Zero: 64.
	Workers int

	// Timeout bounds one touch, which runs on a context of its own: the request's
	// ends as soon as the client goes. Zero: 5 s.
	Timeout time.Duration

	// Success says which answers are an access. Nil: a status below 400 but 303 See Other, by
	// which session.Manager.Require and others send a visitor to a login page. If yours is sent
	// there by another status, put the Toucher's Middleware under the one that asks for the login.
	Success func(status int) bool

	// OnError is called with the error of a touch that the store returns: for an invalid
	// key, a closed store, or any failure of a strict store. Other failures go to the
	// store's own hook, slidingttl.Options.OnTouchError. A record that is gone is no
	// failure. A panic is recovered, and returned by Close. Nil: not called.
	OnError func(ctx context.Context, err error)
}

const (
	defaultWorkers = 64
	defaultTimeout = 5 * time.Second
)

// Toucher touches records after requests for them. It is safe for concurrent use.
type Toucher struct {
	store interface {
		Keep(ctx context.Context, key string) error
	}
	key   func(*http.Request) string
	opts  Options
	free  chan struct{} // a token for each touch in the background
	hooks hook.Runner

	mu      sync.Mutex // guards closed, and orders running.Add before Close's Wait
	closed  bool
	running sync.WaitGroup

	stop   context.Context // ends when Close gives up
	giveUp context.CancelFunc
}

// New returns a Toucher for the records of store, a [slidingttl.Store] of any type. opts may be nil; it is copied.
//
// key returns the key of the record that a request accesses; "" if none. It is called after
// the handler, so that it can use the path values of a ServeMux under the middleware, if
// the handlers between pass on the same request.
func New(store interface {
	Keep(ctx context.Context, key string) error
}, key func(*http.Request) string, opts *Options) (*Toucher, error) {
	t := &Toucher{store: store, key: key}
	if opts != nil {
		t.opts = *opts
	}
	switch {
	case store == nil:
		return nil, &slidingttl.InvalidError{Field: "store", Value: "nil", Rule: "is required"}
	case key == nil:
		return nil, &slidingttl.InvalidError{Field: "key", Value: "nil", Rule: "is required"}
	case t.opts.Workers < 0:
		return nil, &slidingttl.InvalidError{Field: "Options.Workers", Value: fmt.Sprint(t.opts.Workers), Rule: "must not be negative"}
	case t.opts.Timeout < 0:
		return nil, &slidingttl.InvalidError{Field: "Options.Timeout", Value: t.opts.Timeout.String(), Rule: "must not be negative"}
	case t.opts.Workers > 0 && t.opts.Wait:
		return nil, &slidingttl.InvalidError{Field: "Options.Workers", Value: fmt.Sprint(t.opts.Workers), Rule: "must be zero with Wait, which runs nothing in the background"}
	}
	if t.opts.Timeout == 0 {
		t.opts.Timeout = defaultTimeout
	}
	if t.opts.Workers == 0 {
		t.opts.Workers = defaultWorkers
	}
	if t.opts.Success == nil {
		t.opts.Success = func(status int) bool { return status < http.StatusBadRequest && status != http.StatusSeeOther }
	}
	t.free = make(chan struct{}, t.opts.Workers)
	t.stop, t.giveUp = context.WithCancel(context.Background())
	return t, nil
}

// Middleware touches the record of a request after next has answered it. A handler
// that panics touches nothing, and neither do DELETE, and OPTIONS, CONNECT and TRACE, which ask for no record.
func (t *Toucher) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &response.Writer{ResponseWriter: w}
		next.ServeHTTP(answer, r)
		switch r.Method {
		case http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
			return
		}
		if !t.opts.Success(answer.Status()) {
			return
		}
		if key := t.key(r); key != "" {
			t.touch(r.Context(), key)
		}
	})
}

// touch has the record under key touched.
func (t *Toucher) touch(ctx context.Context, key string) {
	if t.opts.Wait || !t.begin() {
		t.keep(context.WithoutCancel(ctx), key)
		return
	}
	go func() {
		defer t.running.Done()
		defer func() { <-t.free }()
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(t.stop, cancel)()
		t.keep(ctx, key)
	}()
}

// begin reserves a place in the background. False: none is free, or t is closed.
func (t *Toucher) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	select {
	case t.free <- struct{}{}:
		t.running.Add(1)
		return true
	default:
		return false
	}
}

func (t *Toucher) keep(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(ctx, t.opts.Timeout)
	defer cancel()
	err := t.store.Keep(ctx, key)
	if err != nil && !errors.Is(err, slidingttl.ErrNotFound) && t.opts.OnError != nil {
		t.hooks.Call(func() { t.opts.OnError(ctx, err) })
	}
}

// Close waits for the touches in the background. If ctx ends first it cancels those, and returns
// ctx's error. Requests that come later do their own touch. Closing again is no error. If OnError has
// panicked, the error is a *slidingttl.PanicError.
func (t *Toucher) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	done := make(chan struct{})
	go func() {
		t.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return t.hooks.Err()
	case <-ctx.Done():
		t.giveUp()
		return ctx.Err()
	}
}
