package slidingprom_test

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/telemetry/slidingprom"
)

// Two lines to see a store, and one more for each that follows.
func Example() {
	d, err := memory.New[string](nil)
	if err != nil {
		panic(err)
	}
	defer d.Close()
	store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, nil)
	if err != nil {
		panic(err)
	}
	defer store.Close(context.Background())

	c := slidingprom.New()
	registry := prometheus.NewRegistry() // or prometheus.MustRegister(c)
	registry.MustRegister(c)
	if err := c.Add("sessions", store); err != nil {
		panic(err)
	}

	_, _ = store.Get(context.Background(), "nobody")
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == "slidingttl_reads_total" {
			for _, m := range f.Metric {
				fmt.Println(m.Label[0].GetValue(), m.Counter.GetValue())
			}
		}
	}
	// Output:
	// hit 0
	// miss 1
}
