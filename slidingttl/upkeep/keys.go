package upkeep

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// keyList is a Scanner over keys whose records were not read.
type keyList []string

// Segments implements driver.Scanner.
func (keyList) Segments(context.Context, int) ([]driver.Cursor, error) {
	return []driver.Cursor{"0"}, nil
}

// Scan implements driver.Scanner.
func (l keyList) Scan(_ context.Context, from driver.Cursor, limit int) (page driver.Page, err error) {
	at, err := strconv.Atoi(string(from))
	if err != nil || at < 0 || at > len(l) {
		return page, driver.BadCursor(from)
	}
	end := min(at+limit, len(l))
	for _, key := range l[at:end] {
		page.Records = append(page.Records, driver.Scanned{Key: key})
	}
	if end < len(l) {
		page.Next = driver.Cursor(strconv.Itoa(end))
	}
	return page, nil
}

// look reads the record under r.Key.
func (w *writer) look(ctx context.Context, r *record) error {
	var raw driver.Raw
	err := retry(ctx, func() (err error) {
		raw, err = w.raw.Raw(ctx, r.Key)
		return err
	})
	if err == nil {
		r.Meta, r.Problem, r.Size = raw.Meta, raw.Problem, len(raw.Value)
	}
	return err
}

// errNoLookUp says that a driver cannot look up keys.
func errNoLookUp() error {
	return invalid("driver", "no driver.RawReader", "is required to look up Keys")
}

// choice names keys and a prefix for a checkpoint, which gets no key by it.
func choice(keys []string, prefix string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", keys, prefix))
	return fmt.Sprintf("keys %.8x", sum)
}
