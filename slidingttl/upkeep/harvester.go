package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// harvester is a Harvest under way.
type harvester struct {
	d       Harvested
	ends    ender // nil: d cannot touch
	opts    *HarvestOptions
	judge   *judge
	until   driver.Instant
	readers *writer

	mu   sync.Mutex // guards held
	held map[int]*held
}

// held has the records of a segment that wait for Bury.
type held struct {
	dead  []driver.Dead
	bytes int       // of their values
	since time.Time // when the first of them was added
}

// ender is a driver that can end a life, by a touch.
type ender interface {
	Resolution() time.Duration
	Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error)
}

func (h *harvester) visit(ctx context.Context, segment int, page []driver.Scanned, into *HarvestReport) error {
	into.Until = h.until
	var dead, aged []driver.Scanned
	for i := range page {
		s := &page[i]
		if s.Problem != nil {
			into.malformed(s.Problem)
			continue
		}
		t, err := h.judge.terms(s.Key)
		now := h.judge.now()
		switch {
		case err != nil:
			return err
		case (s.Alive(h.until) || s.ExpiresAt < earliest) && h.judge.implausible(s.Life, now) != "":
			into.Implausible++
		case s.Alive(h.until) && (!s.Alive(now) || t.limit(s.CreatedAt) > h.until):
			into.Alive++
		case s.Alive(h.until) && h.opts.PastCap && s.ExpiresAt != 0 && s.HeldUntil.Sub(s.ExpiresAt) > h.opts.Grace:
			aged = append(aged, *s)
		case s.Alive(h.until):
			into.PastCap++
		case s.ExpiresAt <= h.opts.Since:
			into.Earlier++
		default:
			dead = append(dead, *s)
		}
	}
	err := each(ctx, h.readers, aged, into, h.end)
	// Values may be long, so hand over what was read before reading more.
	for part := range slices.Chunk(dead, h.opts.Readers) {
		if err != nil {
			break
		}
		if err = each(ctx, h.readers, part, into, func(ctx context.Context, s *driver.Scanned) (HarvestReport, error) {
			d, found, err := h.read(ctx, s)
			if d != nil {
				h.hold(segment, d)
			}
			return found, err
		}); err == nil {
			err = h.bury(ctx, segment, func(of *held) bool { return of.bytes >= h.opts.BatchBytes/h.opts.Segments })
		}
	}
	return err
}

// end ends the life of s if it is still past its cap.
func (h *harvester) end(ctx context.Context, s *driver.Scanned) (one HarvestReport, err error) {
	t, err := h.judge.terms(s.Key)
	if err != nil {
		return one, err
	}
	plan := func(m driver.Meta) (driver.Life, bool, error) {
		now := h.judge.now()
		over := driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: now - now%driver.Instant(h.ends.Resolution()/time.Millisecond)}
		return over, m.Alive(now) && t.limit(m.CreatedAt) <= h.until && h.judge.implausible(m.Life, now) == "", nil
	}
	what, err := h.readers.land(ctx, s.Meta, plan, func(was driver.Meta, over driver.Life) error {
		_, err := h.ends.Touch(ctx, s.Key, was, over, h.judge.now())
		return err
	})
	switch {
	case err != nil:
	case what == done:
		one.Ended++
	case what == locked || what == races:
		one.PastCap++
	default:
		one.Alive++ // or another write has removed it
	}
	return one, err
}

// read reads the record that s describes, and returns a report of this record. A dry run reads
// nothing.
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
	if raw.CreatedAt != s.CreatedAt {
		one.Lost++ // the key's next life has replaced it
	}
	t, err := h.judge.terms(s.Key)
	switch {
	case err != nil:
		return nil, one, err
	case raw.Alive(h.until):
		one.Alive += 1 - one.Lost
		return nil, one, nil
	case raw.ExpiresAt >= t.limit(raw.CreatedAt):
		one.Age++
	default:
		one.Idle++
	}
	return &driver.Dead{Key: s.Key, Raw: raw, At: raw.ExpiresAt}, one, nil
}

// hold queues d for Bury.
func (h *harvester) hold(segment int, d *driver.Dead) {
	if h.opts.Bury == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[segment] == nil {
		h.held[segment] = &held{since: time.Now()}
	}
	of := h.held[segment]
	of.dead = append(of.dead, *d)
	of.bytes += len(d.Value)
}

// flush hands over what a segment holds if a batch is full, or at the segment's end.
func (h *harvester) flush(ctx context.Context, segment int, end bool, _ *HarvestReport) (flushed bool, err error) {
	flushed = true
	err = h.bury(ctx, segment, func(of *held) bool {
		flushed = end || len(of.dead) >= h.opts.Batch || time.Since(of.since) >= longestHeld
		return flushed
	})
	return flushed && err == nil, err
}

// bury hands over what a segment holds if enough returns true.
func (h *harvester) bury(ctx context.Context, segment int, enough func(*held) bool) error {
	h.mu.Lock()
	of := h.held[segment]
	h.mu.Unlock()
	if of == nil || !enough(of) {
		return nil
	}
	if err := again(ctx, func() error { return h.opts.Bury(ctx, of.dead) }); err != nil {
		return fmt.Errorf("HarvestOptions.Bury: %w", err)
	}
	h.mu.Lock()
	delete(h.held, segment)
	h.mu.Unlock()
	return nil
}
