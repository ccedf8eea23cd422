package upkeep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// harvester is a Harvest under way.
type harvester struct {
	d       Harvested
	opts    *HarvestOptions
	judge   *judge
	until   driver.Instant
	readers *writer

	mu   sync.Mutex // guards held, and the report of a page that is read
	held map[int]*held
}

// held is what a segment has for Bury.
type held struct {
	dead  []driver.Dead
	since time.Time // when the first of them came
}

func (h *harvester) visit(ctx context.Context, segment int, page []driver.Scanned, into *HarvestReport) error {
	into.Until = h.until
	var dead []driver.Scanned
	for i := range page {
		s := &page[i]
		if s.Problem != nil {
			into.malformed(s.Problem)
			continue
		}
		at, _, err := h.death(s.Key, s.Life)
		switch {
		case err != nil:
			return err
		case at > h.until:
			into.Alive++
		case at <= h.opts.Since:
			into.Earlier++
		default:
			dead = append(dead, *s)
		}
	}
	return h.readers.all(ctx, dead, func(ctx context.Context, s *driver.Scanned) error {
		d, found, err := h.read(ctx, s)
		h.mu.Lock()
		defer h.mu.Unlock()
		into.add(&found)
		if d != nil {
			h.hold(segment, d)
		}
		return err
	})
}

// death is when a record dies, and whether of age.
func (h *harvester) death(key string, l driver.Life) (at driver.Instant, aged bool, err error) {
	t, err := h.judge.terms(key)
	if err != nil {
		return 0, false, err
	}
	at = t.death(l)
	return at, at >= t.limit(l.CreatedAt), nil
}

// read reads the record that s tells of, and returns a report of it alone. In a dry run
// it reads nothing.
func (h *harvester) read(ctx context.Context, s *driver.Scanned) (d *driver.Dead, one HarvestReport, err error) {
	raw := driver.Raw{Meta: s.Meta}
	if h.opts.Bury != nil {
		err = again(ctx, func() (err error) {
			raw, err = h.d.Raw(ctx, s.Key)
			return err
		})
		switch {
		case errors.Is(err, driver.ErrNotFound):
			one.Lost++
			return nil, one, nil
		case errors.Is(err, driver.ErrInvalid):
			one.malformed(err)
			return nil, one, nil
		case err != nil:
			return nil, one, err
		case raw.Problem != nil:
			one.malformed(raw.Problem)
			return nil, one, nil
		}
	}
	at, aged, err := h.death(s.Key, raw.Life)
	switch {
	case err != nil:
		return nil, one, err
	case raw.CreatedAt != s.CreatedAt && at > h.until:
		one.Lost++ // another life has begun in its place
		return nil, one, nil
	case at > h.until:
		one.Alive++
		return nil, one, nil
	case aged:
		one.Age++
	default:
		one.Idle++
	}
	return &driver.Dead{Key: s.Key, Raw: raw, At: at}, one, nil
}

// hold keeps d for Bury. h.mu is held.
func (h *harvester) hold(segment int, d *driver.Dead) {
	if h.opts.Bury == nil {
		return
	}
	if h.held[segment] == nil {
		h.held[segment] = &held{since: time.Now()}
	}
	of := h.held[segment]
	of.dead = append(of.dead, *d)
}

// flush hands over what a segment holds, once that is enough.
func (h *harvester) flush(ctx context.Context, segment int, end bool, _ *HarvestReport) (bool, error) {
	h.mu.Lock()
	of := h.held[segment]
	h.mu.Unlock()
	if of == nil {
		return true, nil
	}
	if !end && len(of.dead) < h.opts.Batch && time.Since(of.since) < longestHeld {
		return false, nil
	}
	if err := again(ctx, func() error { return h.opts.Bury(ctx, of.dead) }); err != nil {
		return false, fmt.Errorf("HarvestOptions.Bury: %w", err)
	}
	h.mu.Lock()
	delete(h.held, segment)
	h.mu.Unlock()
	return true, nil
}
