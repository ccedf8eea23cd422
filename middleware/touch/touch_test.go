package touch_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/touch"
	"github.com/slidingttl/slidingttl/slidingttl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var answer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Query().Get("answer") {
	case "404":
		http.NotFound(w, r)
	case "302":
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	case "hints":
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusInternalServerError)
	case "body":
		_, _ = io.WriteString(w, "body")
	}
})

// TestStore drives a real store in virtual time: a record lives as long as there
// are successful requests for it.
func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := memory.New[string](nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 4 * time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close(context.Background())
		touches, err := touch.New(store, touch.PathValue("id"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer touches.Close(context.Background())
		mux := http.NewServeMux()
		mux.Handle("GET /{id}", answer)
		site := touches.Middleware(mux)
		get := func(path string) {
			site.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
			synctest.Wait()
		}
		alive := func(key string) bool {
			_, err := store.Peek(t.Context(), key)
			return err == nil
		}
		for _, key := range []string{"redirect", "body", "empty", "failing", "hints", "ignored"} {
			if err := store.Insert(t.Context(), key, "v"); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			time.Sleep(50 * time.Minute)
			get("/redirect?answer=302")
			get("/body?answer=body")
			get("/empty")
			get("/failing?answer=404")
			get("/hints?answer=hints")
			get("/none?answer=body")
		}
		for key, want := range map[string]bool{"redirect": true, "body": true, "empty": true, "failing": false, "hints": false, "ignored": false, "none": false} {
			if alive(key) != want {
				t.Errorf("%s is alive: %v, want %v", key, !want, want)
			}
		}
		for range 2 {
			time.Sleep(50 * time.Minute)
			get("/body")
		}
		if alive("body") {
			t.Error("a busy record outlived its cap")
		}
	})
}

// slow is a store whose touches wait.
type slow struct {
	release chan struct{}
	calls   atomic.Int32
	ended   atomic.Int32 // calls whose context ended
	mu      sync.Mutex   // guards keys
	keys    []string
}

func (s *slow) Keep(ctx context.Context, key string) error {
	s.calls.Add(1)
	s.mu.Lock()
	s.keys = append(s.keys, key)
	s.mu.Unlock()
	select {
	case <-s.release:
		return nil
	case <-ctx.Done():
		s.ended.Add(1)
		return ctx.Err()
	}
}

func byHeader(r *http.Request) string { return r.Header.Get("Key") }

func serve(t *touch.Toucher, key string) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Key", key)
	ctx, cancel := context.WithCancel(r.Context())
	t.Middleware(answer).ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
	cancel()
}

func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{release: make(chan struct{})}
		touches, err := touch.New(store, byHeader, &touch.Options{Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		serve(touches, "")
		serve(touches, "a")
		serve(touches, "b")
		var third atomic.Bool
		go func() {
			serve(touches, "c")
			third.Store(true)
		}()
		synctest.Wait()
		if store.calls.Load() != 3 || third.Load() {
			t.Errorf("%d touches, third done %v: with two workers busy the third request must touch by itself", store.calls.Load(), third.Load())
		}
		closed := make(chan error)
		go func() { closed <- touches.Close(context.Background()) }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("Close returned %v with touches under way", err)
		default:
		}
		close(store.release)
		if err := <-closed; err != nil {
			t.Errorf("Close: %v", err)
		}
		serve(touches, "d")
		if n := store.calls.Load(); n != 4 {
			t.Errorf("%d touches after Close, want one more", n)
		}
		if err := touches.Close(context.Background()); err != nil {
			t.Errorf("Close again: %v", err)
		}
	})
}

// A worker whose touch is done takes the next one.
func TestWorkerIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{release: make(chan struct{})}
		touches, err := touch.New(store, byHeader, &touch.Options{Workers: 1, Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for range 3 {
			serve(touches, "a")
			store.release <- struct{}{}
			synctest.Wait()
		}
		if took := time.Since(start); took != 0 || store.calls.Load() != 3 {
			t.Errorf("%d touches, and the requests waited %v", store.calls.Load(), took)
		}
		if err := touches.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

type keeper func() error

func (k keeper) Keep(context.Context, string) error { return k() }

// OnError is told of failures: not of a touch that landed, and not of a record that is gone.
func TestWhatIsTold(t *testing.T) {
	broken := errors.New("broken")
	for _, err := range []error{nil, &slidingttl.Error{Err: slidingttl.ErrNotFound}, broken} {
		var told []error
		touches, failed := touch.New(keeper(func() error { return err }), byHeader, &touch.Options{
			Wait: true, OnError: func(_ context.Context, err error) { told = append(told, err) },
		})
		if failed != nil {
			t.Fatal(failed)
		}
		serve(touches, "a")
		var want []error
		if err == broken {
			want = []error{broken}
		}
		if !slices.Equal(told, want) {
			t.Errorf("after %v OnError was told %v; want %v", err, told, want)
		}
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{release: make(chan struct{})}
		var failed error
		touches, err := touch.New(store, byHeader, &touch.Options{
			Wait: true, Timeout: time.Minute, OnError: func(_ context.Context, err error) { failed = err },
		})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		serve(touches, "a")
		if took := time.Since(start); took != time.Minute || failed != context.DeadlineExceeded {
			t.Errorf("the request waited %v, hook told %v; want the timeout of its touch", took, failed)
		}
	})
}

func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{release: make(chan struct{})}
		touches, err := touch.New(store, byHeader, &touch.Options{Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		serve(touches, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := touches.Close(ctx); err != context.DeadlineExceeded {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %v", took)
		}
		synctest.Wait()
		if n := store.ended.Load(); n != 1 {
			t.Errorf("Close gave up, and cancelled %d touches; want 1", n)
		}
		returned := make(chan bool, 1)
		go func() {
			serve(touches, "b")
			returned <- true
		}()
		synctest.Wait()
		select {
		case <-returned:
			t.Error("the touch of a request that came after Close was cancelled")
		default:
		}
		close(store.release)
		<-returned
	})
}

// TestHookThatHangs: Close returns when its context ends, whatever OnError does.
func TestHookThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		touches, err := touch.New(&slow{release: make(chan struct{})}, byHeader, &touch.Options{
			Timeout: time.Minute, OnError: func(context.Context, error) { <-release },
		})
		if err != nil {
			t.Fatal(err)
		}
		serve(touches, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := touches.Close(ctx); err != context.DeadlineExceeded {
			t.Errorf("Close: %v", err)
		}
	})
}

// TestHookThatPanics: the process continues, and Close tells of it.
func TestHookThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		touches, err := touch.New(&slow{release: make(chan struct{})}, byHeader, &touch.Options{
			Timeout: time.Minute, OnError: func(context.Context, error) { panic("oh") },
		})
		if err != nil {
			t.Fatal(err)
		}
		serve(touches, "a")
		serve(touches, "b")
		err = touches.Close(t.Context())
		if p, ok := errors.AsType[*slidingttl.PanicError](err); !ok || p.Value != "oh" || p.Count != 2 {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestPanic(t *testing.T) {
	store := &slow{release: make(chan struct{})}
	touches, err := touch.New(store, byHeader, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Key", "a")
	func() {
		defer func() { _ = recover() }()
		touches.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") })).ServeHTTP(httptest.NewRecorder(), r)
		t.Error("the panic was swallowed")
	}()
	if err := touches.Close(t.Context()); err != nil || store.calls.Load() != 0 {
		t.Errorf("%d touches, %v", store.calls.Load(), err)
	}
}

func TestOptions(t *testing.T) {
	store, key := &slow{}, byHeader
	for want, f := range map[slidingttl.InvalidError]func() (*touch.Toucher, error){
		{Field: "store", Value: "nil", Rule: "is required"}: func() (*touch.Toucher, error) { return touch.New(nil, key, nil) },
		{Field: "key", Value: "nil", Rule: "is required"}:   func() (*touch.Toucher, error) { return touch.New(store, nil, nil) },
		{Field: "Options.Workers", Value: "-1", Rule: "must not be negative"}: func() (*touch.Toucher, error) {
			return touch.New(store, key, &touch.Options{Workers: -1})
		},
		{Field: "Options.Workers", Value: "1", Rule: "must be zero with Wait, which runs nothing in the background"}: func() (*touch.Toucher, error) {
			return touch.New(store, key, &touch.Options{Workers: 1, Wait: true})
		},
		{Field: "Options.Timeout", Value: "-1ns", Rule: "must not be negative"}: func() (*touch.Toucher, error) {
			return touch.New(store, key, &touch.Options{Timeout: -1})
		},
	} {
		_, err := f()
		if invalid, ok := errors.AsType[*slidingttl.InvalidError](err); !ok || *invalid != want {
			t.Errorf("error %v, want %v", err, &want)
		}
	}
}

// TestWhatIsNoAccess: neither a method that asks for no record, nor a visitor who is sent to log in, nor an upgrade
// that failed keeps a record alive.
func TestWhatIsNoAccess(t *testing.T) {
	store := &slow{release: make(chan struct{})}
	close(store.release)
	touches, err := touch.New(store, func(*http.Request) string { return "a" }, &touch.Options{Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewUnstartedServer(touches.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/login":
			http.Redirect(w, r, "/", http.StatusSeeOther)
		case "/bad":
			w.WriteHeader(http.StatusBadRequest)
		case "/upgrade":
			if _, _, err := w.(http.Hijacker).Hijack(); err == nil {
				t.Error("hijacked over HTTP/2")
			}
			w.WriteHeader(http.StatusUpgradeRequired)
		}
	})))
	site.EnableHTTP2 = true
	site.StartTLS()
	defer site.Close()
	client := site.Client()
	defer client.CloseIdleConnections()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, tt := range []struct {
		method, path string
		want         int32
	}{
		{"GET", "/", 1}, {"HEAD", "/", 1}, {"POST", "/", 1}, {"PUT", "/", 1},
		{"DELETE", "/", 0}, {"OPTIONS", "/", 0}, {"TRACE", "/", 0}, {"GET", "/login", 0}, {"GET", "/bad", 0}, {"GET", "/upgrade", 0},
	} {
		before := store.calls.Load()
		r, _ := http.NewRequest(tt.method, site.URL+tt.path, nil)
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if n := store.calls.Load() - before; n != tt.want {
			t.Errorf("%s %s: %d touches, want %d", tt.method, tt.path, n, tt.want)
		}
	}
}
