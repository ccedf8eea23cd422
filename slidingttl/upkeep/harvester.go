package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/internal/retry"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// harvester is a Harvest under way.
type harvester struct {
	d       Harvested
	ends    rewriter // nil: d cannot touch
	opts    *HarvestOptions
	judge   *verdict.Judge
	until   driver.Instant
	readers *writer

	again map[string]bool // HarvestOptions.Again

	probed sync.Once
	drains sync.Mutex // held while records are handed over
	failed error      // guarded by drains; why records that waited were not handed over

	mu      sync.Mutex // guards the rest
	waiting []waiting
	results map[int]*Report // by segment, of what was handed over and does not count yet
	waits   map[int]int     // how many of them each segment has
	since   time.Time       // when the first of them was found
	wait    time.Duration   // how long that may be ago, with the time that reading them will take
	perRead time.Duration   // what reading and handing over one took last
	asked   int             // dead records that could not be read
	unread  int             // records that the scan could not read
}

// waiting is a dead record of a segment.
type waiting struct {
	driver.Scanned
	segment int
}

func (h *harvester) visit(ctx context.Context, segment int, page []driver.Scanned, into *Report) error {
	into.Until = h.until
	var dead, aged []driver.Scanned
	for i := range page {
		s := &page[i]
		if s.Problem != nil {
			into.malformed(s.Problem)
			h.askAgain(s.Key, into)
			continue
		}
		t, err := h.judge.Terms(s.Key)
		now := h.judge.Now()
		switch {
		case err != nil:
			return err
		case (s.Alive(h.until) || s.ExpiresAt < verdict.Earliest) && h.judge.Implausible(s.Life, now) != "":
			into.count("implausible", 1)
			if !s.Alive(h.until) { // else it dies later, and is found then
				h.askAgain(s.Key, into)
			}
		case s.Alive(h.until) && (!s.Alive(now) || t.Limit(s.CreatedAt) > h.until):
			into.count("alive", 1)
		case s.Alive(h.until) && h.opts.PastCap && s.ExpiresAt != 0 && s.HeldUntil.Sub(s.ExpiresAt) > h.opts.Grace:
			aged = append(aged, *s)
		case s.Alive(h.until):
			into.count("past_cap", 1)
		case s.ExpiresAt <= h.opts.Since && !(len(h.again) > 0 && h.again[verdict.KeyHash(s.Key)]):
			into.count("earlier", 1)
		default:
			dead = append(dead, *s)
		}
	}
	if err := h.forEach(ctx, recordsOf(aged), into, h.end); err != nil {
		return err
	}
	if h.opts.Bury != nil && len(dead) > 0 {
		h.probed.Do(func() { h.probe(ctx, dead[0].Key) })
	}
	h.mu.Lock()
	if len(h.waiting) == 0 {
		h.since = time.Now()
	}
	for _, d := range dead {
		h.waiting = append(h.waiting, waiting{d, segment})
	}
	h.waits[segment] += len(dead)
	h.mu.Unlock()
	return nil
}

// askAgain adds a record that the scan could not read to Again. Such records may be many, and alive:
// beyond the limit they are only counted, and end no harvest.
func (h *harvester) askAgain(key string, into *Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unread++; h.unread <= mostAgain {
		into.Again = append(into.Again, verdict.KeyHash(key))
	}
}

// forEach calls one for each record. Nothing stays pending: what did not count is read again.
func (h *harvester) forEach(ctx context.Context, page []record, into *Report, one func(context.Context, *record) (Report, error)) error {
	h.readers.fails.walked.Add(int64(len(page)))
	err := forEach(ctx, h.readers, page, into, false, one)
	into.pending = nil
	return causeOf(err)
}

// end ends the life of s if it is still past its cap.
func (h *harvester) end(ctx context.Context, s *record) (one Report, err error) {
	if kept, err := h.readers.spared(ctx, s); err != nil || kept {
		one.count("past_cap", 1)
		return one, err
	}
	t, err := h.judge.Terms(s.Key)
	if err != nil {
		return one, err
	}
	plan := func(m driver.Meta) (driver.Life, bool, error) {
		now := h.judge.Now()
		over := driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: now - now%driver.Instant(h.ends.Resolution()/time.Millisecond)}
		return over, m.Alive(now) && t.Limit(m.CreatedAt) <= h.until && h.judge.Implausible(m.Life, now) == "", nil
	}
	what, err := h.readers.writeUnlessChanged(ctx, s, plan, func(was driver.Meta, over driver.Life) error {
		_, err := h.ends.Touch(ctx, s.Key, was, over, h.judge.Now())
		return err
	})
	switch {
	case err != nil:
	case what == done:
		one.count("ended", 1)
	case what == locked || what == races:
		one.count("past_cap", 1)
	default:
		one.count("alive", 1) // or another write has removed it
	}
	return one, err
}

// read reads the record that s describes, and returns a report of this record. A dry run reads
// nothing.
func (h *harvester) read(ctx context.Context, s *driver.Scanned) (d *driver.Dead, one Report, err error) {
	raw := driver.Raw{Meta: s.Meta}
	if h.opts.Bury != nil {
		raw, err = retry.Value(ctx, func() (driver.Raw, error) { return h.d.Raw(ctx, s.Key) })
		switch {
		case errors.Is(err, driver.ErrNotFound):
			one.count("lost", 1)
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
		one.count("lost", 1) // the key's next life has replaced it
	}
	t, err := h.judge.Terms(s.Key)
	switch {
	case err != nil:
		return nil, one, err
	case raw.Alive(h.until):
		one.count("alive", 1-one.Counts["lost"])
		return nil, one, nil
	case raw.ExpiresAt >= t.Limit(raw.CreatedAt):
		one.count("age", 1)
	default:
		one.count("idle", 1)
	}
	return &driver.Dead{Key: s.Key, Raw: raw, At: raw.ExpiresAt}, one, nil
}

// flush hands over what waits if it is much, or has waited long. It reports whether nothing of the
// segment waits.
func (h *harvester) flush(ctx context.Context, segment int, _ bool, into *Report) (bool, error) {
	if h.due() {
		if err := h.drain(ctx); err != nil {
			return false, err
		}
	}
	h.drains.Lock() // what another segment has taken is handed over
	defer h.drains.Unlock()
	if h.failed != nil {
		return false, h.failed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waits[segment] > 0 {
		return false, nil
	}
	h.count(segment, into)
	return true, nil
}

// due reports whether what waits is to be handed over.
func (h *harvester) due() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.waiting)
	return h.opts.Bury == nil || n >= waitingBatches*h.opts.Batch || n > 0 && time.Since(h.since)+time.Duration(n)*h.perRead >= h.wait
}

// probe measures a read, before any is handed over.
func (h *harvester) probe(ctx context.Context, key string) {
	began := time.Now()
	h.d.Raw(ctx, key) // an error is told when it is read to be handed over
	h.mu.Lock()
	defer h.mu.Unlock()
	h.perRead = time.Since(began) / atOnce
}

// count adds the results of a segment to into. The caller holds mu.
func (h *harvester) count(segment int, into *Report) {
	if r := h.results[segment]; r != nil {
		into.Sum().sum(r.Sum())
		into.add(r)
		delete(h.results, segment)
	}
}

// finish hands over the rest.
func (h *harvester) finish(ctx context.Context, into *Report) error {
	err := h.drain(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	for segment := range h.results {
		h.count(segment, into)
	}
	return err
}

// drain hands over what waits. After an error it does nothing more: the records of all segments
// were mixed, so none of them may count.
func (h *harvester) drain(ctx context.Context) error {
	h.drains.Lock()
	defer h.drains.Unlock()
	if h.failed != nil {
		return h.failed
	}
	h.mu.Lock()
	dead := h.waiting
	h.waiting = nil
	h.wait = min(2*h.wait, longestWait)
	clear(h.waits)
	h.mu.Unlock()
	if len(dead) == 0 {
		return nil
	}
	began := time.Now()
	slices.SortFunc(dead, func(a, b waiting) int {
		return cmp.Or(cmp.Compare(a.ExpiresAt, b.ExpiresAt), cmp.Compare(a.Key, b.Key))
	})
	h.failed = hook.ErrExited // unless it returns: what was taken is not handed over
	h.failed = h.handOver(ctx, dead)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.perRead = time.Since(began) / time.Duration(len(dead))
	return h.failed
}

// handOver reads records and hands them over, in their order.
func (h *harvester) handOver(ctx context.Context, dead []waiting) error {
	var batch []driver.Dead
	bytes := 0
	for part := range slices.Chunk(dead, atOnce) {
		page, segments := make([]record, len(part)), map[string]int{}
		for i, w := range part {
			page[i].Scanned, segments[w.Key] = w.Scanned, w.segment
		}
		var failed Report
		err := h.forEach(ctx, page, &failed, func(ctx context.Context, s *record) (Report, error) {
			d, one, err := h.read(ctx, &s.Scanned)
			if err != nil || one.Counts["malformed"] > 0 {
				one.Again = []string{verdict.KeyHash(s.Key)}
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.asked += len(one.Again); h.asked > mostAgain && err == nil {
				err = fmt.Errorf("%w: %d dead records cannot be read", ErrTooMany, h.asked)
			}
			h.result(segments[s.Key]).add(&one)
			if d != nil && err == nil {
				batch = append(batch, *d)
				bytes += len(d.Value)
			}
			return Report{}, err
		})
		h.mu.Lock()
		h.result(part[0].segment).Sum().sum(failed.Sum())
		h.mu.Unlock()
		if err == nil && (len(batch) >= h.opts.Batch || bytes >= h.opts.BatchBytes) {
			err = h.bury(ctx, batch)
			batch, bytes = nil, 0
		}
		if err != nil {
			return err
		}
	}
	return h.bury(ctx, batch)
}

// result returns the results of a segment. The caller holds mu.
func (h *harvester) result(segment int) *Report {
	if h.results[segment] == nil {
		h.results[segment] = new(Report)
	}
	return h.results[segment]
}

func (h *harvester) bury(ctx context.Context, batch []driver.Dead) error {
	if h.opts.Bury == nil || len(batch) == 0 {
		return nil
	}
	if err := retry.Do(ctx, func() error { return h.opts.Bury(ctx, batch) }); err != nil {
		return fmt.Errorf("HarvestOptions.Bury: %w", err)
	}
	return nil
}
