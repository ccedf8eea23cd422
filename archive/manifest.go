package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
)

// Manifest is the files that make up a day.
type Manifest struct {
	Day   Day    `json:"day"`
	Files []File `json:"files"`

	number  int             // of the last manifest file, zero for none
	name    string          // of that file
	older   []string        // names of the others
	merged  bool            // no two of its merged files have a life in common
	batches map[string]bool // what is in the merged files
	garbage []File          // files of records that do not count
	err     error           // why Files is not all of the day, nil if it is
}

// Rows is the number of rows in the files. A life that is in two files counts twice.
func (m *Manifest) Rows() (n int64) {
	for _, f := range m.Files {
		n += f.Rows
	}
	return n
}

// swap is the content of a manifest file: what holds instead of all that was there.
type swap struct {
	Version int      `json:"version"`
	Files   []string `json:"files"`   // base names
	Batches []string `json:"batches"` // marks of those that are in Files, or were removed
	Merged  bool     `json:"merged"`  // no two of Files have a life in common
}

const swapVersion = 1

// catalog reads manifests. It keeps manifest files, which never change.
type catalog struct {
	bucket Bucket

	mu    sync.Mutex
	swaps map[string]*swap // guarded by mu; by name
}

const keptSwaps = 4096

// errShifting says that others changed the archive faster than it could be listed.
var errShifting = errors.New("the archive changed each time that it was listed")

// manifests returns the days of span that have anything, in order.
//
// A listing may be made while a manifest file appears and the files that it outlaws go: it
// could lack both. So it counts only if no manifest file came up until it was made: then
// nothing that is missing was outlawed. And it may have the manifest file and lack one that
// was written just before; that is missing only if it is not there in the next one either.
func (c *catalog) manifests(ctx context.Context, span Span) ([]Manifest, error) {
	days, err := c.list(ctx, span)
	if err != nil {
		return nil, err
	}
	lacks := "" // the files that manifest files name and the listing before, which had the same ones, lacks
	for tries := 0; ; tries++ {
		again, err := c.list(ctx, span)
		if err != nil {
			return nil, err
		}
		if !settled(days, again) {
			lacks = ""
		} else {
			all, err := c.resolve(ctx, days)
			missing := ""
			for _, m := range all {
				if errors.Is(m.err, fs.ErrNotExist) {
					missing += m.err.Error()
				}
			}
			if err != nil || missing == lacks || missing == "" {
				return all, err
			}
			lacks = missing
		}
		if tries == 20 {
			return nil, errShifting
		}
		days = again
	}
}

// settled reports whether no day of again has another manifest file than it had.
func settled(days, again map[Day]*Manifest) bool {
	for d, m := range again {
		if was := days[d]; m.number != 0 && (was == nil || was.number != m.number) {
			return false
		}
	}
	return true
}

// manifest returns that of one day.
func (c *catalog) manifest(ctx context.Context, d Day) (Manifest, error) {
	all, err := c.manifests(ctx, Span{d, d})
	if err != nil || len(all) == 0 {
		return Manifest{Day: d}, err
	}
	return all[0], nil
}

// list returns all files by day, and the number of each day's last manifest file.
func (c *catalog) list(ctx context.Context, span Span) (map[Day]*Manifest, error) {
	days := map[Day]*Manifest{}
	for i, err := range c.bucket.List(ctx, span.prefix()) {
		if err != nil {
			return nil, err
		}
		d, base, ok := dayIn(i.Name)
		if !ok || !span.Has(d) {
			continue
		}
		n, isManifest := parseManifest(base)
		f, isFile := parseFile(i, base)
		if !isManifest && !isFile {
			continue
		}
		m := days[d]
		if m == nil {
			m = &Manifest{Day: d, batches: map[string]bool{}}
			days[d] = m
		}
		switch {
		case isManifest && n > m.number:
			if m.number != 0 {
				m.older = append(m.older, m.name)
			}
			m.number, m.name = n, i.Name
		case isManifest:
			m.older = append(m.older, i.Name)
		default:
			m.Files = append(m.Files, f)
		}
	}
	return days, nil
}

// resolve tells the files that count from those that do not. What is wrong with a day is in
// its err.
func (c *catalog) resolve(ctx context.Context, days map[Day]*Manifest) ([]Manifest, error) {
	all := make([]Manifest, 0, len(days))
	for _, d := range slices.Sorted(maps.Keys(days)) {
		m := days[d]
		if m.number == 0 {
			m.settle(nil)
			all = append(all, *m)
			continue
		}
		s, err := c.swap(ctx, m.name)
		switch {
		case errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist):
			all = append(all, Manifest{Day: d, number: m.number, name: m.name, older: m.older, err: err})
			continue
		case err != nil:
			return nil, err
		}
		m.merged = s.Merged
		for _, b := range s.Batches {
			m.batches[b] = true
		}
		holds := s.holds(d)
		m.settle(holds)
		for _, missing := range slices.Sorted(maps.Keys(holds)) {
			m.err = &CorruptError{File: missing, Err: fmt.Errorf("%s names it: %w", m.name, fs.ErrNotExist)}
		}
		all = append(all, *m)
	}
	return all, nil
}

func (s *swap) holds(d Day) map[string]bool {
	holds := map[string]bool{}
	for _, base := range s.Files {
		holds[d.directory()+base] = true
	}
	return holds
}

// settle keeps the files that count: those that holds names, which it takes out of holds,
// and one of each batch that is in none of them.
func (m *Manifest) settle(holds map[string]bool) {
	slices.SortFunc(m.Files, func(a, b File) int { // one that is there by both its names is read by its own
		return cmp.Or(cmp.Compare(a.own(), b.own()), -cmp.Compare(a.Name, b.Name))
	})
	var files []File
	batches := map[string]bool{}
	for _, f := range m.Files {
		switch {
		case holds[f.own()]:
			delete(holds, f.own())
			files = append(files, f)
		case f.Merged || m.batches[f.mark] || batches[f.mark]:
			m.garbage = append(m.garbage, f)
		default:
			batches[f.mark] = true
			files = append(files, f)
		}
	}
	m.Files = files
}

// swap returns the content of a manifest file.
func (c *catalog) swap(ctx context.Context, name string) (*swap, error) {
	c.mu.Lock()
	s := c.swaps[name]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	content, err := readAll(ctx, c.bucket, name)
	if err != nil {
		return nil, err
	}
	s = new(swap)
	if err := json.Unmarshal(content, s); err != nil {
		return nil, &CorruptError{File: name, Err: err}
	}
	if s.Version != swapVersion {
		return nil, &CorruptError{File: name, Err: fmt.Errorf("it has version %d; this program knows %d", s.Version, swapVersion)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.swaps == nil || len(c.swaps) >= keptSwaps {
		c.swaps = map[string]*swap{}
	}
	c.swaps[name] = s
	return s, nil
}
