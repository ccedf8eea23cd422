package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// remote is the backend as a driver.
type remote struct{ b *backend }

var errUnused = errors.New("not part of the simulation")

func (r remote) Resolution() time.Duration { return resolution }

func (r remote) Get(_ context.Context, key string) (driver.Entry[int], error) {
	i := indexOf(key)
	l := r.b.read(i)
	if l.ExpiresAt == 0 {
		return driver.Entry[int]{}, driver.ErrNotFound
	}
	return driver.Entry[int]{Value: i, Meta: driver.Meta{Life: l}}, nil
}

func (r remote) Insert(_ context.Context, key string, _ int, life driver.Life, now driver.Instant) (driver.Version, error) {
	return 0, r.b.insert(indexOf(key), life, now)
}

func (r remote) Touch(_ context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	return 0, r.b.touch(indexOf(key), func(found *record) error {
		switch {
		case found.ExpiresAt == 0 || !found.Alive(now):
			return driver.ErrNotFound
		case found.Life != was.Life:
			return &driver.ConflictError{Found: driver.Meta{Life: found.Life}}
		}
		found.Life = life
		return nil
	})
}

func (r remote) Replace(context.Context, string, int, driver.Meta, driver.Life, driver.Instant) (driver.Version, error) {
	return 0, errUnused
}

func (r remote) Delete(context.Context, string) error { return errUnused }
