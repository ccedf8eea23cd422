package upkeep

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Totals is the common part of all reports.
type Totals struct {
	Records int64   `json:"records"` // records read
	Cost    float64 `json:"cost"`    // of the scan, in the store's unit; zero if it reports none
	Seconds float64 `json:"seconds"` // duration of all runs
	Done    bool    `json:"done"`    // all records were read

	// Runs is the number of runs: more than one after a resume. Records that a run changed
	// after its last checkpoint count as found in their new state.
	Runs int `json:"runs"`

	// Passed counts the items in the store that are no records of this layout: they have
	// another type, or keys that the layout does not make.
	Passed int64 `json:"passed,omitempty"`

	// Failed counts the records that could not be read or written, and were not changed.
	// Failures has their number by reason, at most 100 reasons.
	Failed   int64            `json:"failed,omitempty"`
	Failures map[string]int64 `json:"failures,omitempty"`
}

func (t *Totals) sum(page *Totals) {
	t.Records += page.Records
	t.Cost += page.Cost
	t.Seconds += page.Seconds
	t.Runs += page.Runs
	t.Passed += page.Passed
	t.Failed += page.Failed
	t.Failures = count(t.Failures, page.Failures)
}

// Sum returns t.
func (t *Totals) Sum() *Totals { return t }

// collected is the result of an operation, for one page or for all.
type collected[R any] interface {
	add(page *R)
	Sum() *Totals
}

// state is a pointer to an operation's result.
type state[R any] interface {
	*R
	collected[R]
}

var (
	_ collected[audited]       = (*audited)(nil)
	_ collected[DyingReport]   = (*DyingReport)(nil)
	_ collected[diffed]        = (*diffed)(nil)
	_ collected[AdoptReport]   = (*AdoptReport)(nil)
	_ collected[MendReport]    = (*MendReport)(nil)
	_ collected[ReapReport]    = (*ReapReport)(nil)
	_ collected[UndoReport]    = (*UndoReport)(nil)
	_ collected[EraseReport]   = (*EraseReport)(nil)
	_ collected[HarvestReport] = (*HarvestReport)(nil)
)

// job is an operation.
type job[R any, S state[R]] struct {
	name  string
	about string
	opts  Options
	cost  *pace
	// pick chooses the segments to visit, of split ones; nil: all.
	split int
	pick  func([]driver.Cursor) ([]driver.Cursor, error)
	// visit processes a page of a segment, and adds the results to into.
	visit func(ctx context.Context, segment int, page []driver.Scanned, into S) error
	// flush is called after each page. Only when it returns true do the results count, and
	// may the position be saved. end says that the segment has no more pages. Nil: every
	// page counts.
	flush func(ctx context.Context, segment int, end bool, into S) (bool, error)
	// finish is called after the last page, if flush has left results that do not count yet.
	finish func(ctx context.Context, into S) error
	// wrote returns the number of writes, for Progress.
	wrote func() int64
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
	found    R
	left     map[int]*R // by segment, results of ended ones that count after finish
	saved    time.Time
}

// run visits s and returns the results, also together with an error.
func (j job[R, S]) run(ctx context.Context, s driver.Scanner) (R, error) {
	w := &walk[R, S]{
		job:     j,
		scanner: s,
		records: newPace(j.opts.Limits.Records),
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
		return w.found, err
	}
	if w.opts.Shards > 0 {
		return w.found, w.part(w.opts.Shards)
	}
	w.before = S(&w.found).Sum().Seconds
	S(&w.found).Sum().Runs++
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	for range min(w.opts.Segments, len(w.segments)) {
		workers.Go(func() {
			for i, ok := w.take(); ok; i, ok = w.take() {
				if err := w.segment(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	workers.Wait()
	err := context.Cause(ctx)
	if err == nil && len(w.left) > 0 {
		err = w.end(ctx)
	}
	if saveErr := w.save(); err == nil { // without the lock: the other goroutines have ended
		err = saveErr
	}
	return w.found, err
}

// end calls finish, and counts what was left to it.
func (w *walk[R, S]) end(ctx context.Context) error {
	var rest R
	if err := w.finish(ctx, &rest); err != nil {
		return err
	}
	S(&w.found).Sum().sum(S(&rest).Sum())
	S(&w.found).add(&rest)
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
			var found R
			if err := json.Unmarshal(c.State, &found); err != nil {
				return fmt.Errorf("Options.Resume: its state: %w", err)
			}
			S(&w.found).Sum().sum(S(&found).Sum())
			S(&w.found).add(&found)
			w.segments = append(w.segments, c.Segments...)
		}
		return nil
	}
	return again(ctx, func() (err error) {
		n := w.opts.Segments * max(w.opts.Shards, 1)
		if w.pick != nil {
			n = w.split
		}
		if w.segments, err = w.scanner.Segments(ctx, n); err == nil && w.pick != nil {
			w.segments, err = w.pick(w.segments)
		}
		return err
	})
}

// part saves a checkpoint for each of n shards. Each shard has every n-th segment.
func (w *walk[R, S]) part(n int) error {
	all := w.segments
	if len(all) < n {
		return invalid("Options.Shards", fmt.Sprint(n), fmt.Sprintf("must be at most %d: this store splits no finer", len(all)))
	}
	for i := range n {
		w.segments = nil
		for j := i; j < len(all); j += n {
			w.segments = append(w.segments, all[j])
		}
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
		var page driver.Page
		err := again(ctx, func() (err error) {
			page, err = w.scanner.Scan(ctx, at, w.opts.Page)
			return err
		})
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
		if err := w.visit(ctx, i, page.Records, &found); err != nil {
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

// commit adds the results of a page, and moves the segment's position.
func (w *walk[R, S]) commit(i int, next driver.Cursor, found S) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := S(&w.found)
	all.Sum().sum(found.Sum())
	all.add(found)
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
	t := S(&w.found).Sum()
	p := Progress{Records: t.Records, Passed: t.Passed, Failed: t.Failed, Cost: t.Cost, Segments: len(w.segments), Elapsed: time.Since(w.began)}
	if w.wrote != nil {
		p.Writes = w.wrote()
	}
	for _, s := range w.segments {
		if s == "" {
			p.Done++
		}
	}
	return p
}

// save calls Options.Save with a checkpoint. The caller holds w.mu.
func (w *walk[R, S]) save() error {
	w.saved = time.Now()
	t := S(&w.found).Sum()
	t.Seconds = w.before + time.Since(w.began).Seconds()
	c := Checkpoint{Operation: w.name, About: w.about, Segments: append([]driver.Cursor(nil), w.segments...)}
	t.Done = c.Done()
	if w.opts.Save == nil {
		return nil
	}
	var err error
	if c.State, err = json.Marshal(&w.found); err == nil {
		err = w.opts.Save(c)
	}
	if err != nil {
		return fmt.Errorf("Options.Save: %w", err)
	}
	return nil
}
