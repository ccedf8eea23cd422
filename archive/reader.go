package archive

import (
	"context"
	"errors"
	"iter"
)

// Reader reads an archive. It is safe for concurrent use, also beside writers, [Compact] and
// [Forget]. A call sees everything that was durable when it began, each life once.
type Reader struct {
	bucket  Bucket
	catalog *catalog
	indexes kept[*index]
}

// NewReader returns a Reader of the archive in b. It does no I/O.
func NewReader(b Bucket) *Reader {
	return &Reader{bucket: b, catalog: &catalog{bucket: b}}
}

// attempts bounds how often an operation starts again because another one replaced its files.
const attempts = 10

// retry calls do with the manifest of a day, and again with its next one if another operation has
// replaced the day's files meanwhile.
func (c *catalog) retry(ctx context.Context, m manifest, do func(*manifest) error) error {
	for range attempts {
		err := do(&m)
		if !gone(err) && !errors.Is(err, errOvertaken) {
			return err
		}
		if m, err = c.manifest(ctx, m.day); err != nil {
			return err
		}
	}
	return errOvertaken
}

// manifests returns the days in span that have a record, in order.
// Together with an error that matches ErrCorrupt it returns the days that can be read.
func (r *Reader) manifests(ctx context.Context, span Span) ([]manifest, error) {
	all, err := r.catalog.manifests(ctx, span)
	errs := []error{err}
	var days []manifest
	for _, m := range all {
		errs = append(errs, m.err)
		if len(m.files) > 0 {
			days = append(days, m)
		}
	}
	return days, errors.Join(errs...)
}

// All yields the records that died within span, day by day, and by key within a day. It
// yields an error where it occurs. After an error that matches ErrCorrupt it skips the rest of
// the file that the error names, and continues; any other error is the last.
func (r *Reader) All(ctx context.Context, span Span) iter.Seq2[Archived, error] {
	return func(yield func(Archived, error) bool) {
		all, err := r.catalog.manifests(ctx, span)
		if err != nil {
			yield(Archived{}, err)
			return
		}
		for _, m := range all {
			for a, err := range r.day(ctx, m) {
				if !yield(a, err) || err != nil && !errors.Is(err, ErrCorrupt) {
					return
				}
			}
		}
	}
}

// day yields the records of a day. If another operation replaces the files meanwhile, it
// continues in the new ones after the last record it yielded.
func (r *Reader) day(ctx context.Context, m manifest) iter.Seq2[Archived, error] {
	return func(yield func(Archived, error) bool) {
		var last *identity
		for tries := 0; ; tries++ {
			replaced := false
			if m.err != nil && !yield(Archived{}, m.err) {
				return
			}
			for a, err := range merged(ctx, openHeads(ctx, r.bucket, m.files, false), last) {
				if gone(err) && tries < attempts {
					replaced = true
					break
				}
				if a == nil {
					a = new(Archived)
				}
				if !yield(*a, err) || err != nil && !errors.Is(err, ErrCorrupt) {
					return
				}
				if err == nil {
					id := a.identity()
					last = &id
				}
			}
			if !replaced {
				return
			}
			var err error
			if m, err = r.catalog.manifest(ctx, m.day); err != nil {
				yield(Archived{}, err)
				return
			}
		}
	}
}
