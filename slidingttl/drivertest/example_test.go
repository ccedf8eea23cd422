package drivertest_test

import (
	"context"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// The contract for a driver of a store in this process, on virtual time.
func ExampleRun() {
	_ = func(t *testing.T) { // TestContract, in the driver's own package
		drivertest.Run(t, drivertest.Harness{
			Bubble: true,
			Open: func(t testing.TB) *drivertest.Backend {
				d, err := memory.New[drivertest.Value](nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = d.Close() })
				return &drivertest.Backend{
					Driver: d,
					Plant: func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
						_, err := d.Insert(ctx, key, v, life, driver.Floor(d.Now()))
						return err
					},
				}
			},
			Lacks: map[drivertest.Feature]string{
				drivertest.Fail:        "a store in this process's memory does not fail",
				drivertest.Hang:        "its calls do not block",
				drivertest.Checker:     "there is nothing to configure",
				drivertest.Copies:      "a value is handed out as it is",
				drivertest.ReadToucher: "there is no trip to save",
				drivertest.Malform:     "nobody else writes to it",
				drivertest.Mender:      "nobody else writes to it",
				drivertest.Gated:       "a write is done when the call is",
				drivertest.Apart:       "its clock is the process's",
				drivertest.Hostile:     "nobody else writes to it",
			},
		})
	}
}
