package inmemory

import (
	"context"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// own is a slidingttl.Store on the memory driver.
type own struct {
	ctx   context.Context
	under *memory.Driver[value]
	store *slidingttl.Store[value]
}

// openOwn opens a store whose slack is a percentage of the idle timeout.
func openOwn(percent time.Duration, opts *slidingttl.Options[value]) func(time.Duration) (store, error) {
	return func(idle time.Duration) (store, error) {
		d, err := memory.New[value](nil)
		if err != nil {
			return nil, err
		}
		s, err := slidingttl.New(d, slidingttl.Policy{
			IdleGrace:   idle,
			MaxLifetime: 24 * idle,
			Slack:       idle * percent / 100,
		}, opts)
		return &own{context.Background(), d, s}, err
	}
}

// watched has touches bounded and seen, which reads that are not due are not to pay for.
func watched() *slidingttl.Options[value] {
	return &slidingttl.Options[value]{
		Budget:   1000,
		Observer: &slidingttl.Observer{Touch: func(context.Context, slidingttl.TouchEvent) {}},
	}
}

func (o *own) hit(key string) (value, bool) {
	v, err := o.store.Get(o.ctx, key)
	return v, err == nil
}

func (o *own) put(key string, v value) error { return o.store.Insert(o.ctx, key, v) }

// putUntil goes to the driver, since a store's policy gives no record an end of its own.
func (o *own) putUntil(key string, v value, at time.Time) error {
	now := driver.Floor(o.under.Now())
	_, err := o.under.Insert(o.ctx, key, v, driver.Life{CreatedAt: now, ExpiresAt: driver.Ceil(at)}, now)
	return err
}

func (o *own) held() int { return o.under.Len() }

func (o *own) close() {
	_ = o.store.Close(o.ctx)
	_ = o.under.Close()
}
