package driver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// late refuses the first Inserts as a store does whose clock has been set ahead.
type late struct {
	driver.Driver[int]
	refusals int
	err      error // beside ErrLate
}

func (l *late) Insert(context.Context, string, int, driver.Life, driver.Instant) (driver.Version, error) {
	if l.refusals--; l.refusals >= 0 {
		return 0, errors.Join(driver.ErrLate, l.err)
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
	plans = 0
	if _, err := driver.Upsert[int](t.Context(), &late{refusals: 1, err: driver.ErrAmbiguous}, "m", 1, nil, plan, now); !errors.Is(err, driver.ErrAmbiguous) || plans != 1 {
		t.Errorf("a write that may have landed: %v, %d plans", err, plans)
	}
}
