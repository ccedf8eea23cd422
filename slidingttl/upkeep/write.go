package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/internal/retry"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Store is a [driver.Driver], of any values, whose records can be listed.
type Store interface {
	driver.Scanner
	rewriter
}

// rewriter is the part of a driver.Driver that knows no values.
type rewriter interface {
	Resolution() time.Duration
	Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error)
	Delete(ctx context.Context, key string) error
}

// outcome is the result of a write, as the report counts it.
type outcome string

const (
	nothing  outcome = ""           // nothing had to be written
	done     outcome = "done"       // written, or in a dry run would be
	vanished outcome = "vanished"   // removed, dead or replaced before the write
	locked   outcome = "locked"     // by another client
	races    outcome = "lost_races" // lost more races than a write may lose
	kept     outcome = "kept"       // of a kind that the operation does not write
)

// lostRaces bounds the races with live traffic that the write of one record may lose.
const lostRaces = 16

// writer makes conditional writes at a limited pace, some at once.
type writer struct {
	apply  bool
	slots  chan struct{}
	writes *pace
	cost   *pace     // shared with the scan
	follow *follower // nil: only the limits count
	fails  *failures
	raw    driver.RawReader // nil: the driver has none
	prefix string           // of all keys in the store
	kinds  []string         // that are written besides plain ones
	all    bool             // every kind is written
	tried  atomic.Int64
	landed atomic.Int64 // where nothing is written, records that did not fail
}

func newWriter(d any, o *WriteOptions) *writer {
	raw, _ := driver.As[driver.RawReader](d)
	w := &writer{
		raw:    raw,
		prefix: verdict.Prefix(d),
		kinds:  o.Kinds,
		apply:  o.Apply,
		slots:  make(chan struct{}, o.Writers),
		cost:   newPace(&o.Options, func(l Limits) float64 { return l.Cost }),
		fails:  newFailures(&o.Options),
	}
	if o.Follow {
		w.follow = newFollower()
	}
	w.writes = newPace(&o.Options, func(l Limits) float64 {
		if w.follow != nil {
			return w.follow.most(l.Writes)
		}
		return l.Writes
	})
	return w
}

// record is a record to write, and what is known of attempts to do so.
type record struct {
	driver.Scanned
	meant   []driver.Life // that writes without an answer were to store
	unknown bool          // a removal or a correction had no answer
	changes []Change      // of Undo
	races   int           // lost to other writers
	begun   int64         // one more than the successful writes when it was tried first, by this run; zero: it was not
	last    bool          // it is tried for the last time
}

// unsure reports whether a write of r may have landed.
func (r *record) unsure() bool { return len(r.meant) > 0 || r.unknown }

// pendingRecord is a record as JSON.
type pendingRecord struct {
	Key     []byte         `json:"key"`
	Meta    driver.Meta    `json:"meta"`
	Size    int            `json:"size,omitempty"`
	Held    driver.Instant `json:"held,omitempty"`
	Fault   string         `json:"fault,omitempty"`
	Problem string         `json:"problem,omitempty"`
	Meant   []driver.Life  `json:"meant,omitempty"`
	Unknown bool           `json:"unknown,omitempty"`
	Changes []Change       `json:"changes,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r record) MarshalJSON() ([]byte, error) {
	p := pendingRecord{[]byte(r.Key), r.Meta, r.Size, r.HeldUntil, r.Fault, "", r.meant, r.unknown, r.changes}
	if r.Problem != nil {
		p.Problem = verdict.Reason(r.Problem)
	}
	return json.Marshal(p)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *record) UnmarshalJSON(text []byte) error {
	var p pendingRecord
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	*r = record{driver.Scanned{Key: string(p.Key), Meta: p.Meta, Size: p.Size, HeldUntil: p.Held, Fault: p.Fault}, p.Meant, p.Unknown, p.Changes, 0, 0, false}
	switch p.Problem {
	case "":
	case verdict.Reason(driver.ErrNotFound):
		r.Problem = driver.ErrNotFound
	default:
		r.Problem = &driver.InvalidError{Field: "record", Value: "read before", Rule: p.Problem}
	}
	return nil
}

// stopped ends a walk in a page whose records are all counted or pending.
type stopped struct{ err error }

func (s *stopped) Error() string { return s.err.Error() }
func (s *stopped) Unwrap() error { return s.err }

// causeOf returns what ended a walk by err.
func causeOf(err error) error {
	if ended, ok := errors.AsType[*stopped](err); ok {
		return ended.err
	}
	return err
}

// forEach calls one for each record, concurrently, and adds the results to into. A record that
// failed is counted there, or pending if another attempt may succeed and the walk will make one
// (later). It does not end the page, unless too many records have failed; then, and if ctx ends,
// the rest of the page is pending.
func forEach(ctx context.Context, w *writer, page []record, into *Report, later bool, one func(context.Context, *record) (Report, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	var mu sync.Mutex // guards into
	do := func(r *record) {
		defer func() { <-w.slots }()
		before := w.landed.Load()
		found, err := one(ctx, r)
		later := later && !errors.Is(err, driver.ErrInvalid)
		if err != nil && !later && w.readAgain(ctx, r) {
			found, err = one(ctx, r)
		}
		if err == nil && !w.apply {
			w.landed.Add(1)
		}
		mu.Lock()
		defer mu.Unlock()
		t := &into.Totals
		var machine *retry.Fatal
		switch {
		case err == nil:
			into.add(&found)
			return
		case ctx.Err() != nil || errors.As(err, &machine):
			t.pending = append(t.pending, *r)
		case later:
			err = w.fails.inRow(r, err, before, w.landed.Load())
			t.pending = append(t.pending, *r)
		default:
			err = w.fails.note(t, r, err, before, w.landed.Load())
		}
		if err != nil {
			cancel(err)
		}
	}
	for i := range page {
		select {
		case w.slots <- struct{}{}:
			group.Go(func() {
				hook.Try(func() error {
					do(&page[i])
					return nil
				}, func(err error) {
					if err != nil {
						mu.Lock()
						defer mu.Unlock()
						into.pending = append(into.pending, page[i])
						cancel(err)
					}
				})
			})
			continue
		case <-ctx.Done():
		}
		mu.Lock()
		into.pending = append(into.pending, page[i:]...)
		mu.Unlock()
		break
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return &stopped{err}
	}
	return nil
}

// unanswered reports whether a write that ended with err may have landed.
func unanswered(ctx context.Context, err error) bool {
	return errors.Is(err, driver.ErrAmbiguous) || err != nil && ctx.Err() != nil
}

// readAgain finds out what became of an unanswered write of r, and reports whether it landed.
func (w *writer) readAgain(ctx context.Context, r *record) bool {
	if !r.unsure() || w.raw == nil {
		return false
	}
	raw, err := w.raw.Raw(ctx, r.Key)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return true
	case err != nil:
		return false
	}
	r.Meta = raw.Meta
	if slices.Contains(r.meant, raw.Life) {
		return true
	}
	r.meant, r.unknown = nil, false
	return false
}

// recordsOf returns the records of a page.
func recordsOf(page []driver.Scanned) []record {
	records := make([]record, len(page))
	for i, s := range page {
		records[i].Scanned = s
	}
	return records
}

// units returns the write units that a record of this size costs.
func units(size int) int64 { return int64(max(1, (size+1023)/1024)) }

// attemptsOfOne are enough where the store takes other writes.
const attemptsOfOne = 3

// retry makes call for r until it succeeds or fails for good. It gives up sooner if writes succeed
// meanwhile, because then the record fails and not the store.
func (w *writer) retry(ctx context.Context, r *record, call func() error) error {
	before := w.landed.Load()
	return retry.Until(ctx, func(n int) bool { return n >= attemptsOfOne && (r.last || w.landed.Load() > before) }, call)
}

// write is retry of a write, at the pace of w.
func (w *writer) write(ctx context.Context, r *record, write func() error) error {
	return w.retry(ctx, r, func() error {
		distance, probe := 1.0, false
		if w.follow != nil {
			distance, probe = w.follow.next()
		}
		if err := w.writes.wait(ctx, distance); err != nil {
			return err
		}
		if err := w.cost.wait(ctx, 1); err != nil {
			return err
		}
		w.tried.Add(1)
		began := time.Now()
		err := write()
		if probe {
			w.follow.trip(time.Since(began), err != nil && !retry.IsFinal(err))
		}
		return err
	})
}

// writing returns the job that calls one for each record, and sums the reports.
func (op *operation) writing(about string, o *WriteOptions, w *writer, one func(context.Context, *record) (Report, error)) job[Report, *Report] {
	if len(o.Kinds) > 0 {
		about += fmt.Sprintf(", kinds %q", slices.Sorted(slices.Values(o.Kinds)))
	}
	return job[Report, *Report]{
		name:    op.name,
		about:   about,
		opts:    o.Options,
		keys:    o.Keys,
		cost:    w.cost,
		add:     (*Report).add,
		restart: op.restart,
		wrote:   w.tried.Load,
		visit: func(ctx context.Context, _ int, page []driver.Scanned, into *Report) error {
			w.fails.walked.Add(int64(len(page)))
			return forEach(ctx, w, recordsOf(page), into, true, one)
		},
		redo: func(ctx context.Context, pending []record, into *Report) error {
			for i := range pending {
				pending[i].last = true
			}
			return forEach(ctx, w, pending, into, false, one)
		},
	}
}

// writeUnlessChanged plans and makes a write for the record r. After a conflict it plans again for
// the record that the store returned, until the write succeeds or there is nothing to do. plan
// returns the life to write, and false if there is none.
func (w *writer) writeUnlessChanged(ctx context.Context, r *record, plan func(driver.Meta) (driver.Life, bool, error), write func(driver.Meta, driver.Life) error) (outcome, error) {
	for was := r.Meta; ; was = r.Meta {
		if slices.Contains(r.meant, was.Life) {
			w.landed.Add(1)
			return done, nil
		}
		next, due, err := plan(was)
		if errors.Is(err, driver.ErrNotFound) {
			return vanished, nil // it vanished while its plan was made
		}
		if err != nil || !due {
			return nothing, err
		}
		if spared, err := w.spared(ctx, r); err != nil || spared {
			return kept, err
		}
		if !w.apply {
			w.tried.Add(1)
			return done, nil
		}
		err = w.write(ctx, r, func() error {
			err := write(was, next)
			if next != was.Life && unanswered(ctx, err) {
				r.meant = append(r.meant, next)
			}
			return err
		})
		var conflict *driver.ConflictError
		if !errors.As(err, &conflict) {
			return w.became(err)
		}
		if r.races++; r.races > lostRaces {
			return races, nil
		}
		r.Meta = conflict.Found
	}
}

// became returns the outcome of a write that ended with err.
func (w *writer) became(err error) (outcome, error) {
	switch {
	case err == nil:
		w.landed.Add(1)
		return done, nil
	case errors.Is(err, driver.ErrNotFound):
		return vanished, nil
	case errors.Is(err, driver.ErrLocked):
		return locked, nil
	case errors.Is(err, driver.ErrConflict):
		return races, nil
	}
	return nothing, err
}
