package slidingttl

import (
	"context"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// otherClock makes the calls of a store with Options.Now, whose now is not by the driver's clock.
type otherClock[T any] struct{ driver.Driver[T] }

// Wrapped implements driver.Wrapper.
func (c otherClock[T]) Wrapped(capability any) (any, driver.Way) {
	switch capability.(type) {
	case *driver.Remover[T], *driver.Upserter[T], *driver.Overwriter[T], *driver.ReadToucher[T]:
		return c.Driver, driver.Through
	}
	return c.Driver, driver.Past
}

func (c otherClock[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	return c.Driver.Insert(driver.WithOtherClock(ctx), key, v, life, now)
}

func (c otherClock[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	return c.Driver.Replace(driver.WithOtherClock(ctx), key, v, was, life, now)
}

func (c otherClock[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	return c.Driver.Touch(driver.WithOtherClock(ctx), key, was, life, now)
}

func (c otherClock[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	return driver.Remove(driver.WithOtherClock(ctx), c.Driver, key, was, now)
}

func (c otherClock[T]) Upsert(ctx context.Context, key string, v T, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
	return driver.Upsert(driver.WithOtherClock(ctx), c.Driver, key, v, known, plan, now)
}

func (c otherClock[T]) Overwrite(ctx context.Context, key string, v T, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
	d, _ := driver.As[driver.Overwriter[T]](c.Driver)
	return d.Overwrite(driver.WithOtherClock(ctx), key, v, newLife, a, now)
}

func (c otherClock[T]) ReadTouch(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[T], bool, error) {
	d, _ := driver.As[driver.ReadToucher[T]](c.Driver)
	return d.ReadTouch(driver.WithOtherClock(ctx), key, known, a, now)
}
