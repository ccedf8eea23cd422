package main

import (
	"context"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/examples/internal/backend"
)

func Example_virtualTime() {
	ctx := context.Background()
	b, err := backend.Open[note](ctx, backend.Choice{Driver: "memory"})
	if err != nil {
		panic(err)
	}
	defer b.Close()
	if err := virtualTime(ctx, b.Driver); err != nil {
		panic(err)
	}
	// Output:
	// The same with 30 days of grace, 90 days of life and 3 days of slack, on virtual time:
	//
	//   nobody's     never read                   gone on day 33
	//   ann's        read on day 20, then never   gone on day 53
	//   bob's        read once a week             gone on day 90
	//   everybody's  read ten times a day         gone on day 90
	//
	// 903 reads of live records, 25 touches written.
}

// TestStores runs the hours of virtual time on every store, and a short day of
// real time.
func TestStores(t *testing.T) {
	for _, name := range []string{"memory", "couchbase", "dynamodb", "redis", "cosmos", "postgres", "mariadb", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			b, err := backend.Open[note](t.Context(), backend.Choice{Driver: name})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := realTime(t.Context(), b.Driver, 100*time.Millisecond); err != nil {
				t.Error(err)
			}
			if err := virtualTime(t.Context(), b.Driver); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := backend.Open[note](t.Context(), backend.Choice{Driver: "tape"}); err == nil {
		t.Error("opened an unknown driver")
	}
}
