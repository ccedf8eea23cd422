package upkeep

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	attempts     = 8
	firstBackoff = 200 * time.Millisecond // doubled from one attempt to the next: 25 s in all
)

// again makes call until it succeeds, or fails in a way that another attempt does not
// change.
func again(ctx context.Context, call func() error) error {
	for n := 0; ; n++ {
		err := call()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case n == attempts-1, errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrNotFound), errors.Is(err, driver.ErrConflict):
			return err
		}
		if err := sleep(ctx, time.Duration(float64(firstBackoff<<n)*(0.5+rand.Float64()))); err != nil {
			return err
		}
	}
}
