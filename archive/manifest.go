package archive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// manifest is the files that make up a day.
type manifest struct {
	day     Day
	files   []dataFile
	number  int             // of the last manifest file, zero for none
	name    string          // of that file
	older   []string        // names of the earlier manifest files
	merged  bool            // Compact is done with its merged files
	batches map[string]bool // marks of the batches in the merged files
	garbage []dataFile      // data files that do not count, or may not
	missing []string        // files that the manifest file names and that are not there
	foreign []string        // files that engines read and that are not the archive's
	err     error           // why files is incomplete, nil if it is complete
}

// rows is the number of rows in the files. A life that is in two files counts twice.
func (m *manifest) rows() (n int64) {
	for _, f := range m.files {
		n += f.rows
	}
	return n
}

// swap is the content of a manifest file: the files that replace all earlier ones.
type swap struct {
	Version int      `json:"version"`
	Files   []string `json:"files"`   // base names
	Batches []string `json:"batches"` // marks of the batches in Files, and of removed ones
	Merged  bool     `json:"merged"`  // Compact is done with Files
	By      string   `json:"by"`      // random: a commit knows its own file by it
	Sum     string   `json:"sum"`     // checksum of all the rest
}

// checksum returns what Sum must be.
func (s swap) checksum() string {
	s.Sum = ""
	content, _ := json.Marshal(&s) // it has no type that can fail
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// swapVersion is the version of the layout.
const swapVersion = 2

// catalog reads manifests.
type catalog struct {
	bucket Bucket
	swaps  kept[*swap]
}

// errShifting says that others changed the archive faster than it could be listed.
var errShifting = errors.New("the archive changed during each listing")

// manifests returns the days of span that have files, in order.
//
// A listing is not a snapshot. While it is made, a manifest file may appear and the files
// that it replaces may go, and the listing may lack both. So a listing counts only if the
// next one shows the same manifest files. A listing may also show a manifest file but lack a
// file that it names. That file counts as missing only if the next listing lacks it too.
func (c *catalog) manifests(ctx context.Context, span Span) ([]manifest, error) {
	days, err := c.list(ctx, span)
	if err != nil {
		return nil, err
	}
	lacks := "" // errors for files that manifest files name and the previous listing lacks
	for tries := 0; ; tries++ {
		again, err := c.list(ctx, span)
		if err != nil {
			return nil, err
		}
		if !sameManifests(days, again) {
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

// sameManifests reports whether the last manifest file of every day is the same in both listings.
func sameManifests(days, again map[Day]*manifest) bool {
	for d, m := range again {
		if was := days[d]; m.number != 0 && (was == nil || was.number != m.number) {
			return false
		}
	}
	return true
}

// manifest returns the manifest of one day.
func (c *catalog) manifest(ctx context.Context, d Day) (manifest, error) {
	all, err := c.manifests(ctx, Span{d, d})
	if err != nil || len(all) == 0 {
		return manifest{day: d}, err
	}
	return all[0], nil
}

// last returns the number of a day's last manifest file, zero for none.
func (c *catalog) last(ctx context.Context, d Day) (number int, err error) {
	for i, err := range c.bucket.List(ctx, d.directory()+manifestPrefix) {
		if err != nil {
			return 0, err
		}
		_, base, _ := dayIn(i.Name)
		n, _ := parseManifest(base)
		number = max(number, n)
	}
	return number, nil
}

// list returns all files by day, and the number of each day's last manifest file.
func (c *catalog) list(ctx context.Context, span Span) (map[Day]*manifest, error) {
	days := map[Day]*manifest{}
	for i, err := range c.bucket.List(ctx, span.prefix()) {
		if err != nil {
			return nil, err
		}
		d, base, ok := dayIn(i.Name)
		n, isManifest := parseManifest(base)
		f, isFile := parseFile(i, base)
		isForeign := !isFile && strings.HasSuffix(base, dataSuffix)
		if !ok && strings.HasPrefix(i.Name, dayPrefix) && strings.HasSuffix(i.Name, dataSuffix) { // told with the quarantine, for it has no day
			d, ok, isManifest, isForeign = Quarantine, true, false, true
		}
		if !ok || !span.has(d) || !isManifest && !isFile && !isForeign {
			continue
		}
		m := days[d]
		if m == nil {
			m = &manifest{day: d, batches: map[string]bool{}}
			days[d] = m
		}
		switch {
		case isForeign:
			m.foreign = append(m.foreign, i.Name)
		case isManifest && n > m.number:
			if m.number != 0 {
				m.older = append(m.older, m.name)
			}
			m.number, m.name = n, i.Name
		case isManifest:
			m.older = append(m.older, i.Name)
		default:
			m.files = append(m.files, f)
		}
	}
	return days, nil
}

// resolve decides which files count. A day's fault is in its err.
func (c *catalog) resolve(ctx context.Context, days map[Day]*manifest) ([]manifest, error) {
	all := make([]manifest, 0, len(days))
	for _, d := range slices.Sorted(maps.Keys(days)) {
		m := days[d]
		if err := m.lost(); err != nil {
			all = append(all, m.unknown(err))
			continue
		}
		if m.number == 0 {
			m.sortOut(nil)
			all = append(all, *m)
			continue
		}
		s, err := c.swap(ctx, m.name)
		switch {
		case errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist):
			all = append(all, m.unknown(err))
			continue
		case err != nil:
			return nil, err
		}
		m.merged = s.Merged
		for _, b := range s.Batches {
			m.batches[b] = true
		}
		holds := s.holds(d)
		m.sortOut(holds)
		m.missing = slices.Sorted(maps.Keys(holds))
		for _, name := range m.missing {
			m.err = &CorruptError{File: name, Err: fmt.Errorf("%s names it: %w", m.name, fs.ErrNotExist)}
		}
		all = append(all, *m)
	}
	return all, nil
}

// unknown returns m for a day of which no manifest file says which files count.
func (m *manifest) unknown(err error) manifest {
	return manifest{day: m.day, number: m.number, name: m.name, garbage: m.files, foreign: m.foreign, err: err}
}

// lost returns an error if the last manifest file is lost: a merged file gets its own name only after the
// manifest file that it was written for. It then makes m.number and m.name those of the lost file.
func (m *manifest) lost() (err error) {
	for _, f := range m.files {
		if f.merged && !f.work && f.number > m.number {
			m.number, m.name = f.number, manifestName(m.day, f.number)
			err = &CorruptError{File: m.name, Err: fmt.Errorf("it gave %s its name: %w", f.name, fs.ErrNotExist)}
		}
	}
	return err
}

func (s *swap) holds(d Day) map[string]bool {
	holds := map[string]bool{}
	for _, base := range s.Files {
		holds[d.directory()+base] = true
	}
	return holds
}

// sortOut splits files into those that count and garbage. The files in holds count, and those of
// batches that are in none of them: if two processes wrote a batch, both of its files, of which one
// may be damaged. It removes the files it finds from holds.
func (m *manifest) sortOut(holds map[string]bool) {
	slices.SortFunc(m.files, func(a, b dataFile) int { // if a file has both names, its own comes first
		return cmp.Or(cmp.Compare(a.own(), b.own()), -cmp.Compare(a.name, b.name))
	})
	var files []dataFile
	for _, f := range m.files {
		switch {
		case holds[f.own()]:
			delete(holds, f.own())
			files = append(files, f)
		case f.merged || m.batches[f.mark]:
			m.garbage = append(m.garbage, f)
		default:
			files = append(files, f)
		}
	}
	m.files = files
}

// swap returns the content of a manifest file.
func (c *catalog) swap(ctx context.Context, name string) (*swap, error) {
	return c.swaps.get(name, func() (*swap, error) {
		content, err := readAll(ctx, c.bucket, name)
		if err != nil {
			return nil, err
		}
		s := new(swap)
		if err := json.Unmarshal(content, s); err != nil {
			return nil, &CorruptError{File: name, Err: err}
		}
		version := s.Version
		s.Version = swapVersion // one flipped bit makes no other version
		switch whole := s.Sum == s.checksum(); {
		case whole && version == swapVersion:
			return s, nil
		case whole || version == swapVersion: // in a name of "files", a flipped bit would empty the day
			return nil, &CorruptError{File: name, Err: errors.New("its checksum is wrong")}
		}
		return nil, &CorruptError{File: name, Err: fmt.Errorf("%w: it has version %d, and this program knows %d: update the program", ErrVersion, version, swapVersion)}
	})
}
