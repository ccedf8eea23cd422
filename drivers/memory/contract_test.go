package memory_test

import (
	"context"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

func TestContract(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		Bubble: true,
		Open: func(t testing.TB) *drivertest.Backend {
			d, err := memory.New[drivertest.Value](nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
			return &drivertest.Backend{
				Driver: d,
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
			drivertest.Malform:     "a life is two numbers here, whoever writes it",
			drivertest.Mender:      "so there is nothing to mend",
		},
	})
}
