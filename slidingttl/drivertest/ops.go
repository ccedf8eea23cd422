package drivertest

import (
	"context"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// op is a call that any record, or none, may be under.
type op struct {
	name string
	call func(ctx context.Context, key string, was driver.Meta) error
}

// ops returns the calls of the driver, its optional ones included. Each would
// succeed on a live record that was describes, except Insert.
func (t *trial) ops() []op {
	later := func(l driver.Life) driver.Life { return t.later(l, time.Hour) }
	all := []op{
		{"Get", func(ctx context.Context, key string, _ driver.Meta) error {
			_, err := t.d.Get(ctx, key)
			return err
		}},
		{"Insert", func(ctx context.Context, key string, _ driver.Meta) error {
			_, err := t.d.Insert(ctx, key, value(7), t.life(time.Hour), t.now())
			return err
		}},
		{"Replace", func(ctx context.Context, key string, was driver.Meta) error {
			_, err := t.d.Replace(ctx, key, value(7), was, later(was.Life), t.now())
			return err
		}},
		{"Touch", func(ctx context.Context, key string, was driver.Meta) error {
			_, err := t.d.Touch(ctx, key, was, later(was.Life), t.now())
			return err
		}},
		{"Delete", func(ctx context.Context, key string, _ driver.Meta) error {
			return t.d.Delete(ctx, key)
		}},
		{"Upsert", func(ctx context.Context, key string, _ driver.Meta) error {
			plan := func(found *driver.Meta) (driver.Life, error) { return t.life(time.Hour), nil }
			_, err := driver.Upsert(ctx, t.d, key, value(7), nil, plan, t.now())
			return err
		}},
		{"GetMulti", func(ctx context.Context, key string, _ driver.Meta) error {
			_, err := driver.GetMulti(ctx, t.d, []string{key})
			return err
		}},
	}
	return all
}
