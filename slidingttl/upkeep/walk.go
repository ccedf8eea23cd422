package upkeep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/internal/retry"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// state is a pointer to an operation's result, for one page or for all.
type state[R any] interface {
	*R
	Sum() *Totals
}

// job is an operation.
type job[R any, S state[R]] struct {
	name  string
	about string
	opts  Options
	keys  []string // to look up; nil: a scan
	cost  *pace
	add   func(into, page S)
	// restart drops what is from a scan that began anew, and keeps what the store was changed by.
	restart func(S)
	// visit processes a page of a segment, and adds the results to into.
	visit func(ctx context.Context, segment int, page []driver.Scanned, into S) error
	// flush is called after each page. Only when it returns true do the results count, and
	// may the position be saved. end says that the segment has no more pages. Nil: every
	// page counts.
	flush func(ctx context.Context, segment int, end bool, into S) (bool, error)
	// redo makes a last attempt at records that were left pending. Nil: no record is.
	redo func(ctx context.Context, pending []record, into S) error
	// finish is called after the last page, if flush has left results that do not count yet.
	finish func(ctx context.Context, into S) error
	// wrote returns the number of writes, for Progress.
	wrote func() int64
}

// Walk visits the records of s, as the operations do. It writes nothing, and returns what visit has found
// of the pages of so many segments, in the sum of add. visit is called concurrently for several
// segments, with an empty R. R embeds Totals, and must marshal to JSON for checkpoints, which are valid
// for one name and about.
//
// Together with an error, the result is valid for the records read until then.
func Walk[R any, S interface {
	*R
	Sum() *Totals
}](ctx context.Context, s driver.Scanner, name, about string, opts *Options, add func(into, page S), visit func(segment int, page []driver.Scanned, into S) error) (*R, error) {
	o, err := checked(opts)
	if err != nil {
		return new(R), err
	}
	found, err := job[R, S]{
		name:  name,
		about: about,
		opts:  o,
		cost:  newPace(&o, func(l Limits) float64 { return l.Cost }),
		add:   add,
		restart: func(r S) {
			t := *r.Sum()
			t.restart()
			*r = *new(R)
			*r.Sum() = t
		},
		visit: func(_ context.Context, segment int, page []driver.Scanned, into S) error {
			return visit(segment, page, into)
		},
	}.run(ctx, s)
	return &found, err
}

// walk is a job under way.
type walk[R any, S state[R]] struct {
	job[R, S]
	scanner driver.Scanner
	records *pace
	began   time.Time
	before  float64 // seconds of the runs before this one

	mu       sync.Mutex // guards the rest
	next     int        // the first segment not yet taken
	segments []driver.Cursor
	parts    []R        // the results of each segment
	found    R          // all others: of a finished run, and of what is written after the last page
	left     map[int]*R // by segment, results of ended ones that count after finish
	saved    time.Time
}

// all returns all results. The caller holds w.mu.
func (w *walk[R, S]) all() *R {
	all := new(R)
	w.sum(all, &w.found)
	for i := range w.parts {
		w.sum(all, &w.parts[i])
	}
	t := S(all).Sum()
	t.Waiting, t.Done = int64(len(t.pending)), len(t.pending) == 0
	for _, s := range w.segments {
		t.Done = t.Done && s == ""
	}
	return all
}

// sum adds results to others.
func (w *walk[R, S]) sum(into, more S) {
	into.Sum().sum(more.Sum())
	w.add(into, more)
}

// run visits s and returns the results, also together with an error.
func (j job[R, S]) run(ctx context.Context, s driver.Scanner) (R, error) {
	s, named, err := chosen(s, j.keys, j.opts.Prefix)
	if err != nil {
		return *new(R), err
	}
	j.about = named + j.about
	w := &walk[R, S]{
		job:     j,
		scanner: s,
		records: newPace(&j.opts, func(l Limits) float64 { return l.Records }),
		began:   time.Now(),
	}
	w.saved = w.began
	if w.opts.Store != "" {
		w.about = "store " + w.opts.Store + ", " + w.about
	}
	if w.opts.Now != nil {
		ctx = driver.WithOtherClock(ctx)
	}
	if err := w.open(ctx); err != nil {
		return *w.all(), err
	}
	if w.opts.Shards > 0 {
		return *w.all(), w.split(w.opts.Shards)
	}
	w.before = S(&w.found).Sum().Seconds
	S(&w.found).Sum().Runs++
	err = w.walk(ctx)
	if err == nil {
		err = w.retry(ctx)
	}
	if err == nil && len(w.left) > 0 {
		err = w.end(ctx)
	}
	if saveErr := w.save(); err == nil { // without the lock: the other goroutines have ended
		err = saveErr
	}
	return *w.all(), err
}

// walk visits the segments that are left.
func (w *walk[R, S]) walk(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	for range min(w.opts.Segments, len(w.segments)) {
		workers.Go(func() {
			hook.Try(func() error {
				for i, ok := w.take(); ok; i, ok = w.take() {
					if err := w.segment(ctx, i); err != nil {
						return err
					}
				}
				return nil
			}, func(err error) {
				if err != nil {
					cancel(err)
				}
			})
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// retry makes a last attempt at all records that are pending.
func (w *walk[R, S]) retry(ctx context.Context) error {
	var pending []record
	for _, t := range w.totals() {
		pending, t.pending = append(pending, t.pending...), nil
	}
	if len(pending) == 0 {
		return nil
	}
	// The store may be what failed: wait for it.
	_, err := retry.Value(ctx, func() ([]driver.Cursor, error) { return w.scanner.Segments(ctx, 1) })
	var rest R
	if err == nil {
		err = w.redo(ctx, pending, &rest)
	} else {
		S(&rest).Sum().pending = pending
	}
	w.sum(&w.found, &rest)
	return causeOf(err)
}

// totals returns the totals of all results, a segment's and the others'.
func (w *walk[R, S]) totals() []*Totals {
	all := []*Totals{S(&w.found).Sum()}
	for i := range w.parts {
		all = append(all, S(&w.parts[i]).Sum())
	}
	return all
}

// end calls finish, and counts what was left to it.
func (w *walk[R, S]) end(ctx context.Context) error {
	var rest R
	if err := w.finish(ctx, &rest); err != nil {
		return err
	}
	w.sum(&w.found, &rest)
	for i, found := range w.left {
		if err := w.commit(i, "", found); err != nil {
			return err
		}
	}
	return nil
}

// open splits the store into segments, or restores them from a checkpoint.
func (w *walk[R, S]) open(ctx context.Context) error {
	if w.opts.Resume != nil {
		for _, c := range append([]Checkpoint{*w.opts.Resume}, w.opts.Beside...) {
			if err := c.fits(w.name, w.about); err != nil {
				return err
			}
			if err := w.restore(&c); err != nil {
				return fmt.Errorf("Options.Resume: its state: %w", err)
			}
		}
		return nil
	}
	n := w.opts.Segments * max(w.opts.Shards, 1)
	var err error
	w.segments, err = retry.Value(ctx, func() ([]driver.Cursor, error) { return w.scanner.Segments(ctx, n) })
	w.parts = make([]R, len(w.segments))
	return err
}

// restore adds the segments of c, and its results.
func (w *walk[R, S]) restore(c *Checkpoint) error {
	rest, parts := c.State, make([]R, len(c.Segments))
	if len(c.Parts) == len(c.Segments) {
		rest = c.Rest
		for i := range parts {
			if err := json.Unmarshal(c.Parts[i], &parts[i]); err != nil {
				return err
			}
		}
	}
	var others R
	if err := json.Unmarshal(rest, &others); err != nil {
		return err
	}
	t := S(&others).Sum()
	t.Waiting, t.pending = 0, c.Pending
	w.sum(&w.found, &others)
	w.segments, w.parts = append(w.segments, c.Segments...), append(w.parts, parts...)
	return nil
}

// split saves a checkpoint for each of n shards. Each shard has every n-th segment.
func (w *walk[R, S]) split(n int) error {
	all := w.segments
	if len(all) < n {
		return invalid("Options.Shards", fmt.Sprint(n), fmt.Sprintf("must be at most %d: this store splits no finer", len(all)))
	}
	for i := range n {
		w.segments = nil
		for j := i; j < len(all); j += n {
			w.segments = append(w.segments, all[j])
		}
		w.parts = make([]R, len(w.segments))
		if err := w.save(); err != nil {
			return err
		}
	}
	return nil
}

// take returns a segment that no goroutine visits yet.
func (w *walk[R, S]) take() (int, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; w.next < len(w.segments); w.next++ {
		if w.segments[w.next] != "" {
			w.next++
			return w.next - 1, true
		}
	}
	return 0, false
}

// segment visits one segment, page by page.
func (w *walk[R, S]) segment(ctx context.Context, i int) error {
	w.mu.Lock()
	at := w.segments[i]
	w.mu.Unlock()
	var found R // since the last commit
	for at != "" {
		page, err := retry.Value(ctx, func() (driver.Page, error) { return w.scanner.Scan(ctx, at, w.opts.page()) })
		if err != nil {
			return err
		}
		if err := w.records.wait(ctx, float64(len(page.Records))); err != nil {
			return err
		}
		if err := w.cost.wait(ctx, page.Cost); err != nil {
			return err
		}
		t := S(&found).Sum()
		t.Records += int64(len(page.Records))
		t.Cost += page.Cost
		t.Passed += int64(page.Passed)
		if page.Restarted {
			if err := w.restart(ctx, i); err != nil {
				return err
			}
		}
		err = w.visit(ctx, i, page.Records, &found)
		if errors.As(err, new(*stopped)) { // the page is done but for what is pending
			return cmp.Or(w.commit(i, page.Next, &found), causeOf(err))
		}
		if err != nil {
			return err
		}
		at = page.Next
		if w.flush != nil {
			if flushed, err := w.flush(ctx, i, at == "", &found); err != nil {
				return err
			} else if !flushed {
				if at == "" {
					w.mu.Lock()
					if w.left == nil {
						w.left = map[int]*R{}
					}
					w.left[i] = &found
					w.mu.Unlock()
				}
				continue
			}
		}
		if err := w.commit(i, at, &found); err != nil {
			return err
		}
		found = *new(R)
	}
	return nil
}

// restart drops the results of a segment whose scan began anew. Records whose writes had no answer come first: the
// new scan may find them, and what became of those writes is then another record's.
func (w *walk[R, S]) restart(ctx context.Context, i int) error {
	w.mu.Lock()
	t := S(&w.parts[i]).Sum()
	unsure := slices.DeleteFunc(t.pending, func(r record) bool { return !r.unsure() })
	t.pending = nil
	w.mu.Unlock()
	var settled R
	var err error
	if len(unsure) > 0 {
		err = w.redo(ctx, unsure, &settled)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sum(&w.parts[i], &settled)
	w.job.restart(&w.parts[i])
	return causeOf(err)
}

// commit adds the results of a page, and moves the segment's position.
func (w *walk[R, S]) commit(i int, next driver.Cursor, found S) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sum(&w.parts[i], found)
	w.segments[i] = next
	if w.opts.Progress != nil {
		w.opts.Progress(w.progress())
	}
	if time.Since(w.saved) < saveEvery {
		return nil
	}
	return w.save()
}

// progress returns the progress of w. The caller holds w.mu.
func (w *walk[R, S]) progress() Progress {
	now := Progress{Segments: len(w.segments), Elapsed: time.Since(w.began)}
	for _, t := range w.totals() {
		now.Records, now.Passed, now.Failed, now.Cost = now.Records+t.Records, now.Passed+t.Passed, now.Failed+t.Failed, now.Cost+t.Cost
	}
	if w.wrote != nil {
		now.Writes = w.wrote()
	}
	for _, s := range w.segments {
		if s == "" {
			now.Done++
		}
	}
	return now
}

// save calls Options.Save with a checkpoint. The caller holds w.mu.
func (w *walk[R, S]) save() error {
	w.saved = time.Now()
	S(&w.found).Sum().Seconds = w.before + time.Since(w.began).Seconds()
	if w.opts.Save == nil {
		return nil
	}
	all := w.all()
	c := Checkpoint{Operation: w.name, About: w.about, Segments: slices.Clone(w.segments), Pending: S(all).Sum().pending}
	state := func(r *R) (text json.RawMessage) {
		text, _ = json.Marshal(r) // of numbers and text: it cannot fail
		return text
	}
	c.State, c.Rest = state(all), state(&w.found)
	for i := range w.parts {
		c.Parts = append(c.Parts, state(&w.parts[i]))
	}
	if err := w.opts.Save(c); err != nil {
		return fmt.Errorf("Options.Save: %w", err)
	}
	return nil
}
