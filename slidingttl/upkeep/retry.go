package upkeep

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	attempts      = 8
	attemptsOfOne = 3                      // where the store takes other writes
	firstBackoff  = 200 * time.Millisecond // doubled from one attempt to the next: 25 s in all
)

// final are the errors that another attempt does not change.
var final = []error{driver.ErrRefused, driver.ErrInvalid, driver.ErrNotFound, driver.ErrConflict}

// isFinal reports whether another attempt cannot succeed where one ended with err.
func isFinal(err error) bool {
	return slices.ContainsFunc(final, func(e error) bool { return errors.Is(err, e) })
}

// retry makes call until it succeeds, or fails for good.
func retry(ctx context.Context, call func() error) error {
	return attempt(ctx, func(int) bool { return false }, call)
}

// attempt is retry, until so many attempts are enough.
func attempt(ctx context.Context, enough func(n int) bool, call func() error) error {
	for n := 0; ; n++ {
		err := call()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case n == attempts-1, enough(n + 1), isFinal(err), errors.As(err, new(*fatal)):
			return err
		}
		if err := driver.Sleep(ctx, time.Duration(float64(firstBackoff<<n)*(0.5+rand.Float64()))); err != nil {
			return err
		}
	}
}
