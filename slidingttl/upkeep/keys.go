package upkeep

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/internal/retry"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// chosen returns the scanner of s for these keys or this prefix, and their name for a checkpoint, which
// gets no key by it.
func chosen(s driver.Scanner, keys []string, prefix string) (driver.Scanner, string, error) {
	switch {
	case len(keys) > 0:
		raw, ok := driver.As[driver.RawReader](s)
		if !ok {
			return nil, "", invalid("driver", "no driver.RawReader", "is required to look up Keys")
		}
		s = lookUp{raw, keys}
	case prefix != "":
		if d, ok := driver.As[interface {
			Under(prefix string) driver.Scanner
		}](s); ok {
			s = d.Under(prefix)
		}
		s = beginning{s, prefix}
	default:
		return s, "", nil
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", keys, prefix))
	return s, fmt.Sprintf("keys %.8x, ", sum), nil
}

// beginning is a Scanner of the records whose keys begin with prefix.
type beginning struct {
	driver.Scanner
	prefix string
}

func (b beginning) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	page, err := b.Scanner.Scan(ctx, from, limit)
	all := len(page.Records)
	page.Records = slices.DeleteFunc(page.Records, func(s driver.Scanned) bool { return !strings.HasPrefix(s.Key, b.prefix) })
	page.Passed += all - len(page.Records)
	return page, err
}

// lookUp is a Scanner that looks up keys one by one. Where there is no record, the Problem matches
// driver.ErrNotFound.
type lookUp struct {
	store driver.RawReader
	keys  []string
}

func (l lookUp) Segments(context.Context, int) ([]driver.Cursor, error) {
	return []driver.Cursor{"0"}, nil
}

// atOnce bounds the reads under way, and the writes.
const atOnce = 16

func (l lookUp) Scan(ctx context.Context, from driver.Cursor, limit int) (page driver.Page, err error) {
	at, err := strconv.Atoi(string(from))
	if err != nil || at < 0 || at > len(l.keys) {
		return page, driver.BadCursor(from)
	}
	keys := l.keys[at:min(at+limit, len(l.keys))]
	page.Records = make([]driver.Scanned, len(keys))
	failed := make([]error, len(keys))
	slots := make(chan struct{}, atOnce)
	var reads sync.WaitGroup
	for i, key := range keys {
		slots <- struct{}{}
		reads.Go(func() {
			defer func() { <-slots }()
			hook.Try(func() error {
				page.Records[i], failed[i] = l.read(ctx, key)
				return nil
			}, func(err error) {
				if err != nil {
					failed[i] = &retry.Fatal{Err: err}
				}
			})
		})
	}
	reads.Wait()
	if at += len(keys); at < len(l.keys) {
		page.Next = driver.Cursor(strconv.Itoa(at))
	}
	return page, cmp.Or(failed...)
}

// read returns the record under key.
func (l lookUp) read(ctx context.Context, key string) (driver.Scanned, error) {
	s := driver.Scanned{Key: key}
	raw, err := l.store.Raw(ctx, key)
	refused, is := errors.AsType[*driver.InvalidError](err)
	switch {
	case err == nil:
		s.Meta, s.Problem, s.Size = raw.Meta, raw.Problem, len(raw.Value)
	case is && refused.Field == "record":
		s.Problem, s.Other = err, true
	case errors.Is(err, driver.ErrInvalid): // the driver refuses the key
		s.Problem = fmt.Errorf("%w: %w", driver.ErrNotFound, err)
	case errors.Is(err, driver.ErrNotFound):
		s.Problem = driver.ErrNotFound
	default:
		return s, err
	}
	return s, nil
}
