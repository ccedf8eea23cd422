package main

import (
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/examples/quickstart/show"
)

// TestStores runs the hours of virtual time on every store, and a short day of
// real time.
func TestStores(t *testing.T) {
	for _, name := range []string{"memory", "couchbase", "dynamodb", "redis", "cosmos", "postgres", "mariadb", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			b, err := backend.Open[show.Note](t.Context(), backend.Choice{Driver: name})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := show.RealTime(t.Context(), b.Driver, 100*time.Millisecond); err != nil {
				t.Error(err)
			}
			if err := show.VirtualTime(t.Context(), b.Driver); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := backend.Open[show.Note](t.Context(), backend.Choice{Driver: "tape"}); err == nil {
		t.Error("opened an unknown driver")
	}
}
