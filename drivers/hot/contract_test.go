package hot_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// The tier keeps the whole contract, except that it may notice others' writes, and a store that
// is down, late. So the harness calls Forget whenever a case does either.
func TestContract(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, b := range map[string]hot.Bounds{
		"records":  {Records: 100, Staleness: year},
		"absences": {Records: 100, Staleness: year, Absence: year},
	} {
		t.Run(name, func(t *testing.T) { contract(t, b) })
	}
}

func contract(t *testing.T, b hot.Bounds) {
	drivertest.Run(t, drivertest.Harness{
		Bubble: true,
		Open: func(t testing.TB) *drivertest.Backend {
			over := func(r *remote[drivertest.Value]) *hot.Driver[drivertest.Value] {
				h, err := hot.New(r, b, &hot.Options[drivertest.Value]{LateDeletes: true})
				ok(t, "New", err)
				return h
			}
			r := newRemote[drivertest.Value](t)
			h := over(r)
			notified := func(do func() func()) func() func() {
				return func() func() { h.ForgetAll(); return do() }
			}
			return &drivertest.Backend{
				Driver: h,
				Plant: func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
					defer h.Forget(key)
					return r.plant(ctx, key, v, life)
				},
				Retain: func(retain time.Duration) driver.Driver[drivertest.Value] {
					return over(newRetaining[drivertest.Value](t, retain))
				},
				Fail: notified(r.fail),
				Own:  func(err error) bool { return errors.Is(err, errDown) },
				Hang: notified(r.hang),
			}
		},
		// The memory below goes by its caller's time.
		Cases: func(name string) bool { return name != "clock/planned" },
		Lacks: map[drivertest.Feature]string{
			drivertest.Local:    "reads by Load would pass by what is held",
			drivertest.Copies:   "a value is handed out as it is held",
			drivertest.Replaced: "the store in memory below hands over what it replaces",
			drivertest.Mixed:    "the records of the store are one driver's",
			drivertest.Malform:  "the store holds a life as two numbers, whoever writes it",
			drivertest.Mender:   "so there is nothing to mend",
			drivertest.Gated:    "the store is in this process",
			drivertest.Apart:    "its clock is the process's",
			drivertest.Hostile:  "the store holds what its driver wrote",
		},
	})
}
