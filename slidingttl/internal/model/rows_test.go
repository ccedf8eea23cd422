package model

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var errNoRow = errors.New("no such row")

// rows is a repository that knows nothing of expiry: its upsert removes what was stored
// beside the value.
type rows struct{ c *conn }

func (r rows) Get(ctx context.Context, id string) (v value, err error) {
	err = r.c.roundTrip(ctx, "row", id, false, func() error {
		s := r.c.last(id)
		r.c.note(id, "  %d sees the row of %v", r.c.p.id, s)
		if !s.present {
			return errNoRow
		}
		v = s.value
		return nil
	})
	return v, err
}

func (r rows) Upsert(ctx context.Context, id string, v value) error {
	return r.c.roundTrip(ctx, "write row", id, true, func() error {
		r.c.plant(id, v, driver.Life{}, "a repository")
		return nil
	})
}

// plant stores a record as another program would, over whatever is there.
func (w *world) plant(key string, v value, life driver.Life, by string) {
	w.version++
	s := state{present: true, value: v, Meta: driver.Meta{Life: life, Version: w.version}, by: by}
	w.put(key, s)
	w.note(key, "  %s plants %v", by, &s)
}
