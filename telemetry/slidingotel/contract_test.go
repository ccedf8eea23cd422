package slidingotel_test

import (
	"context"
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
	"github.com/slidingttl/slidingttl/telemetry/slidingotel"
)

// A wrapped driver keeps the contract that it keeps without.
func TestContract(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		Bubble: true,
		Open: func(t testing.TB) *drivertest.Backend {
			inner := inMemory[drivertest.Value](t)
			d, err := slidingotel.Wrap(collect(t).tel, driver.Driver[drivertest.Value](inner), slidingotel.Database{System: "memory"})
			ok(t, err)
			return &drivertest.Backend{
				Driver: d,
				Plant: func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
					if err := inner.Delete(ctx, key); err != nil {
						return err
					}
					_, err := inner.Insert(ctx, key, v, life, driver.Floor(inner.Now()))
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
			drivertest.Retain:      "an option of the driver that is wrapped",
			drivertest.Malform:     "a life is two numbers here, whoever writes it",
			drivertest.Mender:      "so there is nothing to mend",
			drivertest.Gated:       "a write is done when the call is",
			drivertest.Apart:       "its clock is the process's",
			drivertest.Hostile:     "nobody else writes to it",
		},
	})
}
