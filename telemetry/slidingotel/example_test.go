package slidingotel_test

import (
	"context"
	"fmt"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/telemetry/slidingotel"
)

// A traced driver in place of the driver. Without Options the global providers are used.
func Example() {
	spans := tracetest.NewSpanRecorder()
	t, err := slidingotel.New(&slidingotel.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
	})
	if err != nil {
		panic(err)
	}
	defer t.Close()
	m, err := memory.New[string](nil)
	if err != nil {
		panic(err)
	}
	defer m.Close()
	d, err := slidingotel.Wrap(t, driver.Driver[string](m), slidingotel.Database{System: "memory", Collection: "sessions"})
	if err != nil {
		panic(err)
	}
	observer, err := t.Observer("sessions")
	if err != nil {
		panic(err)
	}
	store, err := slidingttl.New(driver.Driver[string](d), slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour},
		&slidingttl.Options[string]{Observer: observer})
	if err != nil {
		panic(err)
	}
	defer store.Close(context.Background())
	if err := t.Add("sessions", store); err != nil {
		panic(err)
	}

	if err := store.Upsert(context.Background(), "4711", "ann"); err != nil {
		panic(err)
	}
	for _, s := range spans.Ended() {
		fmt.Println(s.Name())
	}
	// Output:
	// upsert sessions
}
