package memory_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// OnExpiry tells an idle session from one that has reached its longest lifetime.
func ExampleOptions_onExpiry() {
	const idle, most = 20 * time.Millisecond, 50 * time.Millisecond
	reported := make(chan string)
	d, err := memory.New(&memory.Options[string]{
		MaxLifetime: most,
		OnExpiry: func(_ string, last driver.Entry[string], why memory.Reason) {
			reported <- fmt.Sprintf("%s: %v", last.Value, why)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()

	// A slidingttl.Store decides on expiries; here they are written by hand.
	ctx, now := context.Background(), driver.Floor(d.Now())
	for name, ttl := range map[string]time.Duration{"left": idle, "in use to the end": most} {
		life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(ttl)}
		if _, err := d.Insert(ctx, "session of "+name, name, life, now); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(<-reported)
	fmt.Println(<-reported)
	// Unordered output:
	// left: idle
	// in use to the end: cap
}

// A test moves the time of a whole program: the store judges by the driver's clock, and
// the driver removes the dead by it.
func ExampleOptions_now() {
	var mu sync.Mutex
	now := time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)
	d, err := memory.New[string](&memory.Options[string]{
		Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return now
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	sessions, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer sessions.Close(ctx)

	if err := sessions.Insert(ctx, "token", "Ada"); err != nil {
		fmt.Println(err)
	}
	for _, wait := range []time.Duration{29 * time.Minute, 29 * time.Minute, 30 * time.Minute} {
		mu.Lock()
		now = now.Add(wait)
		mu.Unlock()
		name, err := sessions.Get(ctx, "token")
		fmt.Printf("after %v: %q %v\n", wait, name, err)
	}
	// Output:
	// after 29m0s: "Ada" <nil>
	// after 29m0s: "Ada" <nil>
	// after 30m0s: "" slidingttl: get: not found
}

// All lists what is there, without touching it.
func ExampleDriver_All() {
	d, err := memory.New[string](nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	links, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 365 * 24 * time.Hour}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer links.Close(ctx)
	for key, target := range map[string]string{"go": "https://go.dev", "docs": "https://pkg.go.dev"} {
		if err := links.Insert(ctx, key, target); err != nil {
			fmt.Println(err)
		}
	}
	for key, e := range d.All() {
		fmt.Println(key, "leads to", e.Value, "for", e.ExpiresAt.Sub(e.CreatedAt).Round(time.Hour))
	}
	// Unordered output:
	// go leads to https://go.dev for 720h0m0s
	// docs leads to https://pkg.go.dev for 720h0m0s
}
