package touch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/touch"
	"github.com/slidingttl/slidingttl/slidingttl"
)

func Example() {
	ctx := context.Background()
	d, err := memory.New[string](nil)
	if err != nil {
		panic(err)
	}
	defer d.Close()
	links, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 365 * 24 * time.Hour}, nil)
	if err != nil {
		panic(err)
	}
	touches, err := touch.New(links, touch.PathValue("id"), nil)
	if err != nil {
		panic(err)
	}
	if err := links.Insert(ctx, "go", "https://go.dev"); err != nil {
		panic(err)
	}

	mux := http.NewServeMux()
	mux.Handle("GET /{id}", touches.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		link, err := links.Peek(r.Context(), r.PathValue("id")) // reads without a touch
		if err != nil {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, link.Value, http.StatusFound)
	})))
	for _, path := range []string{"/go", "/none"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(path, w.Code, w.Header().Get("Location"))
	}

	if err := touches.Close(ctx); err != nil { // waits for touches in the background
		panic(err)
	}
	if err := links.Close(ctx); err != nil {
		panic(err)
	}
	// Output:
	// /go 302 https://go.dev
	// /none 404
}
