package upkeep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// fewestFailed records may fail whatever their share, because a share of few records
	// means little.
	fewestFailed = 100

	// failedInARow records without a successful write end an operation, because then
	// the store fails and not the records.
	failedInARow = 32
)

// ErrTooMany says that an operation ended because too many records failed.
var ErrTooMany = errors.New("too many records failed")

// failures counts the records that an operation under way could not read or write.
type failures struct {
	notify func(key string, err error)
	share  float64
	walked atomic.Int64 // records processed

	mu     sync.Mutex // guards the rest
	failed int
	inARow int
	landed int64 // successful writes at the time of the last failure
}

func newFailures(o *Options) *failures { return &failures{notify: o.Failed, share: o.MaxFailed} }

// note counts in t that r failed with err, or that it may have been written all the same. before and
// landed are the numbers of successful writes when r was begun, and now. It returns an error if too
// many records have failed.
func (f *failures) note(t *Totals, r *record, err error, before, landed int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	reason := verdict.Reason(err)
	if r.unsure() {
		err = fmt.Errorf("it may have been written: %w", err)
	}
	if f.notify != nil {
		f.notify(r.Key, err) // which may panic: then r is pending, and not counted
	}
	if r.unsure() {
		t.Unsure++
	} else {
		t.Failed++
		t.Failures = verdict.Count(t.Failures, map[string]int64{reason: 1})
	}
	f.failed++
	if f.failed > fewestFailed && f.share < 1 && float64(f.failed) > f.share*float64(f.walked.Load()) {
		return fmt.Errorf("%w: %d of %d, which is more than Options.MaxFailed, the last: %w", ErrTooMany, f.failed, f.walked.Load(), err)
	}
	if r.begun != 0 && landed >= r.begun { // it failed beside others that did not
		return nil
	}
	return f.row(err, before, landed)
}

// inRow counts a record that failed with err for now. It returns an error if so many did in a row
// that the store must have failed.
func (f *failures) inRow(r *record, err error, before, landed int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.begun = before + 1
	return f.row(err, before, landed)
}

// row counts in the row. The caller holds f.mu.
func (f *failures) row(err error, before, landed int64) error {
	if f.landed != landed || before != landed {
		f.landed, f.inARow = landed, 0
	}
	f.inARow++
	if f.inARow >= failedInARow && f.share < 1 && !errors.Is(err, driver.ErrInvalid) {
		return fmt.Errorf("%w: %d in a row, the last: %w", ErrTooMany, f.inARow, err)
	}
	return nil
}

// judgeKey returns an error if the driver does not accept key. It makes no trip, because it calls the
// driver with a context that has ended.
func (w *writer) judgeKey(key string) error {
	if w.raw == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.raw.Raw(ctx, key); errors.Is(err, driver.ErrInvalid) {
		return err
	}
	return nil
}
