// Package retry repeats calls of a store until they succeed, or fail for good.
package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	attempts     = 8
	firstBackoff = 200 * time.Millisecond // doubled from one attempt to the next: 25 s in all
)

// final are the errors that another attempt does not change.
var final = []error{driver.ErrRefused, driver.ErrInvalid, driver.ErrNotFound, driver.ErrConflict}

// Fatal ends an operation: the machine failed, and not the record.
type Fatal struct{ Err error }

func (f *Fatal) Error() string { return f.Err.Error() }
func (f *Fatal) Unwrap() error { return f.Err }

// IsFinal reports whether another attempt cannot succeed where one ended with err.
func IsFinal(err error) bool {
	return slices.ContainsFunc(final, func(e error) bool { return errors.Is(err, e) })
}

// Do makes call until it succeeds, or fails for good.
func Do(ctx context.Context, call func() error) error {
	return Until(ctx, func(int) bool { return false }, call)
}

// Value is Do for a call that returns a value.
func Value[T any](ctx context.Context, call func() (T, error)) (v T, err error) {
	err = Do(ctx, func() (err error) {
		v, err = call()
		return err
	})
	return v, err
}

// Until is Do, but for a number of attempts that is enough.
func Until(ctx context.Context, enough func(n int) bool, call func() error) error {
	for n := 0; ; n++ {
		err := call()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case n == attempts-1, enough(n + 1), IsFinal(err), errors.As(err, new(*Fatal)):
			return err
		}
		if err := driver.Sleep(ctx, time.Duration(float64(firstBackoff<<n)*(0.5+rand.Float64()))); err != nil {
			return err
		}
	}
}
