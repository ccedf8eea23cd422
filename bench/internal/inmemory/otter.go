package inmemory

import (
	"time"

	"github.com/maypok86/otter/v2"
)

// otterCache slides by its ExpiryAccessing, which leaves out moves of up to a second.
type otterCache struct {
	c     *otter.Cache[string, value]
	clock *otter.CoarseClock
}

func openOtter(coarse bool) func(time.Duration) (store, error) {
	return func(idle time.Duration) (store, error) {
		o := &otterCache{}
		opts := &otter.Options[string, value]{ExpiryCalculator: otter.ExpiryAccessing[string, value](idle)}
		if coarse {
			o.clock = otter.NewCoarseClock(time.Millisecond)
			opts.Clock = o.clock
		}
		c, err := otter.New(opts)
		o.c = c
		return o, err
	}
}

func (o *otterCache) hit(key string) (value, bool) { return o.c.GetIfPresent(key) }

func (o *otterCache) put(key string, v value) error {
	o.c.Set(key, v)
	return nil
}

func (o *otterCache) putUntil(key string, v value, at time.Time) error {
	o.c.Set(key, v)
	o.c.SetExpiresAfter(key, time.Until(at))
	return nil
}

func (o *otterCache) held() int { return o.c.EstimatedSize() }

func (o *otterCache) close() {
	o.c.StopAllGoroutines()
	if o.clock != nil {
		o.clock.Stop()
	}
}

// bornValue carries what a cap on a record's life needs to know.
type bornValue struct {
	value
	created int64 // Unix milliseconds
}

// otterBornCache keeps a creation time beside each value and holds reads to a cap.
type otterBornCache struct {
	c   *otter.Cache[string, bornValue]
	cap int64 // milliseconds
}

func openOtterBorn(idle time.Duration) (store, error) {
	c, err := otter.New(&otter.Options[string, bornValue]{ExpiryCalculator: otter.ExpiryAccessing[string, bornValue](idle)})
	return &otterBornCache{c, 24 * idle.Milliseconds()}, err
}

func (o *otterBornCache) hit(key string) (value, bool) {
	v, ok := o.c.GetIfPresent(key)
	return v.value, ok && time.Now().UnixMilli() < v.created+o.cap
}

func (o *otterBornCache) put(key string, v value) error {
	o.c.Set(key, bornValue{v, time.Now().UnixMilli()})
	return nil
}

func (o *otterBornCache) close() { o.c.StopAllGoroutines() }
