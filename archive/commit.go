package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
)

// errOvertaken says that somebody else has changed the day meanwhile.
var errOvertaken = errors.New("somebody else changes the same day, time and again")

// change is what is to hold of a day instead of what a manifest says.
type change struct {
	files  []File          // merged ones
	marks  map[string]bool // batches in them, or removed, beside those of the manifest
	merged bool            // no two of files have a life in common
}

// commit makes c hold in the place of what m says, if nobody has changed that meanwhile:
// else errOvertaken. What m had and c has not is garbage then.
func commit(ctx context.Context, b Bucket, m *Manifest, c change) error {
	s := swap{Version: swapVersion, Merged: c.merged, Files: []string{}}
	for _, f := range c.files {
		s.Files = append(s.Files, path.Base(f.Name))
	}
	marks := map[string]bool{}
	maps.Copy(marks, m.batches)
	maps.Copy(marks, c.marks)
	s.Batches = slices.Sorted(maps.Keys(marks))
	content, err := json.Marshal(&s)
	if err != nil {
		return err
	}
	err = b.Create(ctx, func(w io.Writer) (string, error) {
		_, err := w.Write(content)
		return manifestName(m.Day, m.number+1), err
	})
	if errors.Is(err, fs.ErrExist) {
		return errOvertaken
	}
	return err
}

// sweep renames the merged files of a day that count to their own names, moves files that are
// due for another storage class, and removes the files that do not count. It leaves a file that
// a manifest file yet to come may be about to count, and locked files, for which the error is a
// *LockedError.
func sweep(ctx context.Context, b Bucket, m *Manifest) error {
	renamed := false
	for _, f := range m.Files {
		if !f.work && !f.moves {
			continue
		}
		if err := b.Rename(ctx, f.Name, f.own()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err // of one that is not there somebody else has done it, or removed it
		}
		renamed = true
	}
	if renamed { // perhaps to a file that somebody has removed meanwhile
		now, err := (&catalog{bucket: b}).manifest(ctx, m.Day)
		if err := cmp.Or(err, now.err); err != nil {
			return err
		}
		*m = now
	}
	remove := b.Remove
	if d, ok := b.(*Directory); ok {
		remove = d.unlink // and one sync for all
	}
	var locked *LockedError
	for _, f := range m.garbage {
		if f.Merged && f.number > m.number {
			continue
		}
		err := remove(ctx, f.Name)
		if l, ok := errors.AsType[*LockedError](err); ok {
			locked = l.with(locked)
		} else if err != nil {
			return err
		}
	}
	if locked != nil {
		return locked
	}
	if len(m.garbage) == 0 {
		return nil
	}
	return settle(b, m.Day)
}

// without returns the merged files of m that are not among gone, and the marks of gone.
func (m *Manifest) without(gone []File) change {
	c := change{marks: map[string]bool{}}
	for _, f := range m.Files {
		out := slices.ContainsFunc(gone, func(g File) bool { return g.Name == f.Name })
		switch {
		case out && !f.Merged:
			c.marks[f.mark] = true
		case !out && f.Merged:
			c.files = append(c.files, f)
		}
	}
	return c
}
