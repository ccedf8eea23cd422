package archive

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/internal/keytext"
)

// lookups bounds the files that Find reads at once.
var lookups = 16

// Find returns the lives of key that ended within span, in the order of their ends. It
// reads a file only if the bloom filter says that the key may be in it. The Reader
// remembers the indexes of files, so that the next call reads less.
//
// Together with an error that matches ErrCorrupt it returns the records of the other files.
func (r *Reader) Find(ctx context.Context, key string, span Span) ([]Archived, error) {
	for tries := 0; ; tries++ {
		days, err := r.catalog.manifests(ctx, span)
		if err != nil {
			return nil, err
		}
		found, err := r.findIn(ctx, days, keytext.Encode(key))
		if gone(err) && tries < attempts {
			continue
		}
		return found, err
	}
}

// gone reports whether a listed file no longer exists.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCorrupt) }

func (r *Reader) findIn(ctx context.Context, days []manifest, key string) ([]Archived, error) {
	var mu sync.Mutex // guards found and corrupt
	var found []entry
	var corrupt []error
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(lookups)
	for _, m := range days {
		if m.err != nil {
			corrupt = append(corrupt, m.err)
		}
	}
	for _, m := range days {
		for _, f := range m.files {
			g.Go(func() error {
				records, err := r.find(ctx, f, key)
				mu.Lock()
				defer mu.Unlock()
				for i := range records {
					found = append(found, entryOf(&records[i]))
				}
				if errors.Is(err, ErrCorrupt) {
					corrupt = append(corrupt, err)
					return nil
				}
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var last []Archived
	for _, e := range lives(found) {
		last = append(last, *e.Archived)
	}
	slices.SortStableFunc(last, func(a, b Archived) int { return cmp.Compare(a.ExpiredAt, b.ExpiredAt) })
	return last, errors.Join(corrupt...)
}
