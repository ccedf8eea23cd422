package slidingttl_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/internal/spec/check"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// plainDriver is a driver of some resolution that is not known to be this process's memory.
type plainDriver struct {
	driver.Driver[check.Value]
	step time.Duration
}

func (d plainDriver) Resolution() time.Duration { return d.step }

// TestVectors has the store make the decisions of docs/specification.md over a driver without any
// capability. The drivers' tests have it make them over each store.
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Millisecond, time.Second} {
		t.Run(step.String(), func(t *testing.T) {
			d, err := memory.New[check.Value](nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			s := check.Store{Driver: plainDriver{d, step}, Plant: func(ctx context.Context, key string, v check.Value, expires driver.Instant) error {
				if err := d.Delete(ctx, key); err != nil {
					return err
				}
				_, err := d.Insert(ctx, key, v, driver.Life{ExpiresAt: expires}, 1)
				return err
			}}
			t.Run("decisions", s.Decisions)
			t.Run("histories", s.Histories)
		})
	}
}
