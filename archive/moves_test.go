package archive_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/archive"
)

// aging is a bucket whose files of a day are due for another storage class.
type aging struct {
	archive.Bucket
	day   string
	moved map[string]bool
}

func (a *aging) List(ctx context.Context, prefix string) iter.Seq2[archive.Info, error] {
	return func(yield func(archive.Info, error) bool) {
		for i, err := range a.Bucket.List(ctx, prefix) {
			i.Moves = strings.HasPrefix(i.Name, a.day) && !a.moved[i.Name]
			if !yield(i, err) {
				return
			}
		}
	}
}

func (a *aging) Rename(ctx context.Context, from, to string) error {
	if from == to {
		a.moved[from] = true
		return nil
	}
	return a.Bucket.Rename(ctx, from, to)
}

// Compact moves the files of a day that are due for another storage class, even if there is nothing
// to merge.
func TestCompactMoves(t *testing.T) {
	b := &aging{newFake(), "day=2026-11-23/", map[string]bool{}}
	write(t, writer(t, b), batch(0, 10, 0), batch(0, 10, 1))
	want := lives(t, b)
	compact(t, b)
	if len(b.moved) != 1 {
		t.Errorf("%v were moved; want one file", b.moved)
	}
	if got := lives(t, b); len(got) != len(want) {
		t.Errorf("%d lives; want %d", len(got), len(want))
	}
}
