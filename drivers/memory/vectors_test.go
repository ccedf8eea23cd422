package memory_test

import (
	"context"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/internal/spec/check"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestVectors: the stored form of this driver is the record itself.
func TestVectors(t *testing.T) {
	d, err := memory.New[check.Value](nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	s := check.Store{Driver: d, Local: true, Plant: func(ctx context.Context, key string, v check.Value, expires driver.Instant) error {
		if err := d.Delete(ctx, key); err != nil {
			return err
		}
		_, err := d.Insert(ctx, key, v, driver.Life{ExpiresAt: expires}, 1)
		return err
	}}
	t.Run("decisions", s.Decisions)
	t.Run("histories", s.Histories)
}
