package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// errOvertaken says that another operation changed the day first.
var errOvertaken = errors.New("other operations kept changing the same day")

// change is the content of a day's next manifest file.
type change struct {
	files  []dataFile      // the merged files that count
	marks  map[string]bool // batches merged or removed, beside those of the manifest
	merged bool            // Compact is done with files
}

// commit writes the manifest file that follows m. Files of m that c leaves out become garbage.
// If another operation wrote that manifest file first, commit returns errOvertaken. A commit whose
// answer is lost, or that was sent twice, finds its own manifest file, and has succeeded.
func commit(ctx context.Context, b Bucket, m *manifest, c change) error {
	s := swap{Version: swapVersion, Merged: c.merged, Files: []string{}, By: rand.Text()}
	for _, f := range c.files {
		s.Files = append(s.Files, path.Base(f.own()))
	}
	marks := map[string]bool{}
	maps.Copy(marks, m.batches)
	maps.Copy(marks, c.marks)
	s.Batches = slices.Sorted(maps.Keys(marks))
	s.Sum = s.checksum()
	content, err := json.Marshal(&s)
	if err != nil {
		return err
	}
	name := manifestName(m.day, m.number+1)
	err = b.Create(ctx, m.day.directory(), func(w io.Writer) (string, error) {
		_, err := w.Write(content)
		return name, err
	})
	if err == nil {
		return nil
	}
	if there, failed := readAll(ctx, b, name); failed == nil && bytes.Equal(there, content) {
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return errOvertaken
	}
	return err
}

// sweep gives a day's merged files their own names and removes the files that do not count.
//
// It also moves files that are due for another storage class. It keeps locked files, and
// returns a *LockedError for them. It makes m what it is by a listing just before the removal: m may
// be old, and Repair may have made files count again. It removes those of own first, the files by name that the
// caller has written without success or has replaced, and reads the files that count before it removes any other.
func sweep(ctx context.Context, b Bucket, m *manifest, own map[string]bool) error {
	var locked error
	absent := map[string]error{}
	again := len(m.garbage) > 0
	for _, f := range m.files {
		if !f.work && !f.moves {
			continue
		}
		again = true
		err := b.Rename(ctx, f.name, f.own())
		if errors.Is(err, ErrLocked) { // it has its own name too
			locked = withLocked(locked, err)
		} else if errors.Is(err, fs.ErrNotExist) { // another operation renamed or removed it
			absent[f.name] = err
		} else if err != nil {
			return err
		}
	}
	if !again {
		return nil
	}
	now, err := (&catalog{bucket: b}).manifest(ctx, m.day)
	if err := cmp.Or(err, now.err); err != nil {
		return err
	}
	*m = now
	for _, f := range m.files {
		if err := absent[f.name]; err != nil {
			return fmt.Errorf("%s is listed, and the bucket cannot rename it: %v", f.name, err) // not fs.ErrNotExist: that would pass for a change by another operation
		}
	}
	err = m.remove(ctx, b, func(f dataFile) bool { return own[f.name] })
	if err != nil && !errors.Is(err, ErrLocked) {
		return err
	}
	locked = withLocked(locked, err)
	if err := m.guard(ctx, b, own); err != nil {
		return err
	}
	err = m.remove(ctx, b, func(f dataFile) bool { return !own[f.name] })
	if err != nil && !errors.Is(err, ErrLocked) {
		return err
	}
	return withLocked(locked, err)
}

// remove removes those of the files that do not count that is chooses, but for merged files made for a later manifest
// file: an operation may be about to commit them. It returns one *LockedError for all that are locked.
func (m *manifest) remove(ctx context.Context, b Bucket, is func(dataFile) bool) error {
	remove := b.Remove
	if d, ok := b.(*directory); ok {
		remove = d.unlink // syncDay below syncs the directory once for all files
	}
	var mu sync.Mutex
	var locked error             // guarded by mu
	removed := map[string]bool{} // guarded by mu
	g, to := errgroup.WithContext(ctx)
	g.SetLimit(lookups)
	for _, f := range m.garbage {
		if m.ahead(f) || !is(f) {
			continue
		}
		g.Go(func() error {
			err := remove(to, f.name)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, ErrLocked) {
				locked = withLocked(locked, err)
				return nil
			}
			if err == nil {
				removed[f.name] = true
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if len(removed) > 0 {
		m.garbage = slices.DeleteFunc(slices.Clone(m.garbage), func(f dataFile) bool { return removed[f.name] })
		if err := syncDay(b, m.day); err != nil {
			return err
		}
	}
	return locked
}

// guard reads the files that count, if there is a file that does not and that is none of own: a run that was killed has
// left it, or another operation is at work. What counts may be damaged, and the other file have the only whole copy. Files
// that are locked need no guard.
func (m *manifest) guard(ctx context.Context, b Bucket, own map[string]bool) error {
	var found atomic.Bool
	l, locks := b.(Versioned)
	var g errgroup.Group
	g.SetLimit(lookups)
	for _, f := range m.garbage {
		if own[f.name] {
			continue
		}
		g.Go(func() error {
			if !found.Load() && (!locks || !errors.Is(l.Removable(ctx, f.name), ErrLocked)) {
				found.Store(true)
			}
			return nil
		})
	}
	if _ = g.Wait(); !found.Load() { // no function fails
		return nil
	}
	whole, wrong := map[string]bool{}, map[string]error{}
	for _, f := range m.files {
		err := checkSum(ctx, b, f)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return err
		}
		whole[f.name], wrong[f.name] = err == nil, err
	}
	for _, f := range m.files {
		if !whole[f.name] && !copied(f, m.files, whole) {
			return wrong[f.name]
		}
	}
	return nil
}

// ahead reports whether f is a merged file for the next manifest file. The operation that wrote it may be about
// to commit it, or was killed. Only after that manifest file is it removed.
func (m *manifest) ahead(f dataFile) bool { return f.merged && f.number > m.number }

// without returns the merged files of m that are not among gone, and the marks of gone.
func (m *manifest) without(gone []dataFile) change {
	c := change{marks: map[string]bool{}}
	for _, f := range m.files {
		out := slices.ContainsFunc(gone, func(g dataFile) bool { return g.name == f.name })
		switch {
		case out && !f.merged:
			c.marks[f.mark] = true
		case !out && f.merged:
			c.files = append(c.files, f)
		}
	}
	return c
}
