package driver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// late refuses the first Inserts as a store does whose clock has been set ahead.
type late struct {
	driver.Driver[int]
	refusals int
}

func (l *late) Insert(context.Context, string, int, driver.Life, driver.Instant) (driver.Version, error) {
	if l.refusals--; l.refusals >= 0 {
		return 0, fmt.Errorf("refused: %w", driver.ErrLate)
	}
	return 1, nil
}

// An upsert of a new key plans again where its life had ended, and not without end.
func TestUpsertPlansAgain(t *testing.T) {
	now := driver.Floor(time.Now())
	plans := 0
	plan := func(*driver.Meta) (driver.Life, error) {
		plans++
		return driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, nil
	}
	if _, err := driver.Upsert[int](t.Context(), &late{refusals: 2}, "k", 1, nil, plan, now); err != nil || plans != 3 {
		t.Errorf("after two refusals: %v, %d plans", err, plans)
	}
	if _, err := driver.Upsert[int](t.Context(), &late{refusals: 1000}, "l", 1, nil, plan, now); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("after a thousand refusals: %v; want %v", err, driver.ErrConflict)
	}
	if driver.PlanAgain(fmt.Errorf("%w: %w", driver.ErrAmbiguous, driver.ErrLate)) {
		t.Error("a write that may have landed must not be planned again")
	}
}
