package memory_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// Every record is held to the whole contract, those too that are retained when dead.
func TestContract(t *testing.T) {
	for name, retain := range map[string]time.Duration{"default": 0, "retaining": time.Hour} {
		t.Run(name, func(t *testing.T) { contract(t, retain) })
	}
}

func contract(t *testing.T, retain time.Duration) {
	open := func(t testing.TB, retain time.Duration) *memory.Driver[drivertest.Value] {
		d, err := memory.New(&memory.Options[drivertest.Value]{Retain: retain})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	drivertest.Run(t, drivertest.Harness{
		Bubble: true,
		Open: func(t testing.TB) *drivertest.Backend {
			d := open(t, retain)
			return &drivertest.Backend{
				Driver: d,
				Retain: func(retain time.Duration) driver.Driver[drivertest.Value] { return open(t, retain) },
				Plant: func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
					if err := d.Delete(ctx, key); err != nil {
						return err
					}
					_, err := d.Insert(ctx, key, v, life, driver.Floor(d.Now()))
					return err
				},
			}
		},
		Lacks: map[drivertest.Feature]string{
			drivertest.Fail:        "a store in this process's memory does not fail",
			drivertest.Hang:        "its calls do not block",
			drivertest.Copies:      "a value is stored as it is and handed out as it is",
			drivertest.Checker:     "there is nothing to configure",
			drivertest.ReadToucher: "there is no trip to save",
			drivertest.Mixed:       "its records are its own",
			drivertest.Malform:     "a life is two numbers here, whoever writes it",
			drivertest.Mender:      "so there is nothing to mend",
			drivertest.Gated:       "a write is done when the call is",
			drivertest.Apart:       "its clock is the process's",
			drivertest.Hostile:     "nobody else writes to it",
		},
	})
}
