package drivertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// RunRefused tests a driver d whose store refuses every call. The store does not know the
// user, for example, or has no such table. Each call must return driver.ErrRefused and no
// other error: a walk over all records would otherwise repeat the call in vain.
func RunRefused(t *testing.T, d driver.Driver[Value]) {
	t.Helper()
	for _, failure := range refused(t.Context(), d) {
		t.Error(failure)
	}
}

func refused(ctx context.Context, d driver.Driver[Value]) []string {
	return newTrial(ctx, &Harness{}, &Backend{Driver: d}).execute(testCase{run: func(t *trial) {
		was := driver.Meta{Life: t.life(time.Hour), Version: 1}
		ops := t.ops()
		if s, ok := driver.As[driver.Scanner](t.d); ok {
			ops = append(ops, op{"Scan", func(ctx context.Context, _ string, _ driver.Meta) error {
				cursors, err := s.Segments(ctx, 1)
				if err == nil {
					_, err = s.Scan(ctx, cursors[0], 1)
				}
				return err
			}})
		}
		if r, ok := driver.As[driver.RawReader](t.d); ok {
			ops = append(ops, op{"Raw", func(ctx context.Context, key string, _ driver.Meta) error {
				_, err := r.Raw(ctx, key)
				return err
			}})
		}
		for _, op := range ops {
			err := op.call(t.ctx, t.key(op.name), was)
			if !errors.Is(err, driver.ErrRefused) {
				t.Errorf("%s: the error is %v; want %v", op.name, err, driver.ErrRefused)
			}
			for _, other := range []error{driver.ErrNotFound, driver.ErrConflict, driver.ErrInvalid, driver.ErrAmbiguous} {
				if errors.Is(err, other) {
					t.Errorf("%s: the error %v is also %v", op.name, err, other)
				}
			}
			t.quiet(op.name, err)
		}
	}})
}
