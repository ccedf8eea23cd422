package upkeep

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// fewestFailed may fail whatever their share: of the first records it means little.
	fewestFailed = 100

	// failedInARow ends an operation none of whose writes lands any more: it is not the
	// records.
	failedInARow = 32
)

// ErrTooMany says that an operation ended because too many records failed.
var ErrTooMany = errors.New("too many records failed")

// failures counts the records that an operation under way could not read or write.
type failures struct {
	told   func(key string, err error)
	share  float64
	looked atomic.Int64 // records that were gone through

	mu     sync.Mutex // guards the rest
	failed int
	inARow int
	landed int64 // writes that had when the last one failed
}

func newFailures(o *Options) *failures { return &failures{told: o.Failed, share: o.MaxFailed} }

// note notes in t that err came of the record under key, when so many writes had landed. It
// returns an error if that is one too many.
func (f *failures) note(t *Totals, key string, err error, landed int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Failed++
	t.Failures = count(t.Failures, map[string]int64{reason(err): 1})
	if f.told != nil {
		f.told(key, err)
	}
	f.failed++
	if f.landed != landed {
		f.landed, f.inARow = landed, 0
	}
	f.inARow++
	switch {
	case f.share >= 1:
		return nil
	case f.inARow >= failedInARow && !errors.Is(err, driver.ErrInvalid):
		return fmt.Errorf("%w: %d in a row, the last: %w", ErrTooMany, f.inARow, err)
	case f.failed > fewestFailed && float64(f.failed) > f.share*float64(f.looked.Load()):
		return fmt.Errorf("%w: %d of %d, which is more than Options.MaxFailed, the last: %w", ErrTooMany, f.failed, f.looked.Load(), err)
	}
	return nil
}

// requestID is what differs in the errors of one cause.
var requestID = regexp.MustCompile(`(?i)(request|activity) ?id: [^,\s]*,? ?`)

// reason is why err came, in the same words for all records with that problem.
func reason(err error) string {
	const most = 160
	var bad *driver.InvalidError
	if errors.As(err, &bad) {
		return bad.Field + " " + bad.Rule
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = requestID.ReplaceAllString(text, "")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// judgeKey returns the error of a key that d cannot take. It makes no trip, for its context
// has ended.
func judgeKey[T any](d driver.Driver[T], key string) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := d.Get(ctx, key); errors.Is(err, driver.ErrInvalid) {
		return err
	}
	return nil
}
