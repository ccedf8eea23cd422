//go:build unix

package archive_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// disk records what a power cut would leave below a directory: of each file and directory, the
// content or entries at its last sync.
type disk struct {
	t    *testing.T
	top  string
	left int    // syncs until the process is killed
	at   func() // called before each sync and after it

	mu       sync.Mutex
	contents map[uint64][]byte            // guarded by mu; of files, by inode
	entries  map[uint64]map[string]uint64 // guarded by mu; of directories, the inodes of their entries
	dirs     map[uint64]bool              // guarded by mu; the inodes in entries that are directories
}

func newDisk(t *testing.T) *disk {
	d := &disk{t: t, top: t.TempDir(), left: 1 << 30, contents: map[uint64][]byte{}, entries: map[uint64]map[string]uint64{}, dirs: map[uint64]bool{}}
	d.dirs[inode(t, d.top)] = true
	return d
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	i, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return i.Sys().(*syscall.Stat_t).Ino
}

// open opens the archive two directories below the top.
func (d *disk) open() archive.Bucket {
	d.t.Helper()
	b, err := archive.OpenWith(filepath.Join(d.top, "var", "archive"), d.sync)
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

// sync replaces fsync.
func (d *disk) sync(f *os.File) error {
	if d.left--; d.left < 0 {
		return errCrash
	}
	if d.at != nil {
		d.at()
	}
	i, err := f.Stat()
	if err != nil {
		return err
	}
	d.mu.Lock()
	n := i.Sys().(*syscall.Stat_t).Ino
	if i.IsDir() {
		names, err := os.ReadDir(f.Name())
		if err != nil {
			d.t.Error(err)
		}
		d.entries[n] = map[string]uint64{}
		for _, e := range names {
			of := inode(d.t, filepath.Join(f.Name(), e.Name()))
			d.entries[n][e.Name()], d.dirs[of] = of, e.IsDir()
		}
	} else if d.contents[n], err = os.ReadFile(f.Name()); err != nil {
		d.t.Error(err)
	}
	d.mu.Unlock()
	if d.at != nil {
		d.at()
	}
	return nil
}

// cut returns the archive that a power cut leaves.
func (d *disk) cut() archive.Bucket {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	to := d.t.TempDir()
	if err := d.copyTo(inode(d.t, d.top), to); err != nil {
		d.t.Fatal(err)
	}
	b, err := archive.OpenDirectory(filepath.Join(to, "var", "archive"))
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

func (d *disk) copyTo(n uint64, to string) error {
	if !d.dirs[n] {
		return os.WriteFile(to, d.contents[n], 0o600)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for name, of := range d.entries[n] {
		if err := d.copyTo(of, filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// survives wants a power cut now to leave a correct archive with the lives of want.
func (d *disk) survives(when string, want []string) archive.Bucket {
	d.t.Helper()
	b := d.cut()
	if _, err := archive.NewReader(b).Verify(d.t.Context(), nil); err != nil {
		d.t.Fatalf("%s: %v", when, err)
	}
	has := lives(d.t, b)
	for _, id := range want {
		if !slices.Contains(has, id) {
			d.t.Fatalf("%s: %s is lost; there are %q", when, id, has)
		}
	}
	return b
}

// The effect of a call survives a power cut, at that moment and at every later fsync. No partial
// file exists.
func TestPowerCut(t *testing.T) {
	d := newDisk(t)
	var done []string
	d.at = func() { d.survives("at a sync", done) }
	b := d.open()
	w := writer(t, b)
	for _, cut := range []lot{batch(0, 3, 0), batch(3, 5, 0), batch(0, 2, 1)} {
		write(t, w, cut)
		done = lives(t, b)
		d.survives("after Write", done)
	}
	for _, want := range []string{"1", "2"} {
		if err := w.SaveCheckpoint(t.Context(), "sweeper", []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := writer(t, d.cut()).Checkpoint(t.Context(), "sweeper"); string(got) != want || err != nil {
			t.Errorf("the checkpoint is %q, %v; want %q", got, err, want)
		}
	}
	compact(t, b)
	d.survives("after Compact", done)
	key := dead(1, 0).Key
	done = slices.DeleteFunc(done, func(id string) bool { return strings.Contains(id, key) })
	if _, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{key}}, nil); err != nil {
		t.Fatal(err)
	}
	if names := holders(t, d.survives("after Forget", done), key); len(names) > 0 {
		t.Errorf("what was forgotten comes back in %q", names)
	}
	done = done[4:]
	if _, err := archive.Retain(t.Context(), b, 2, &archive.Walk{Apply: true, Now: func() time.Time { return noon.AddDate(0, 0, 3) }}); err != nil {
		t.Fatal(err)
	}
	if has := lives(t, d.survives("after Retain", done)); len(has) != 1 {
		t.Errorf("%q are there after Retain", has)
	}
}

// A compaction that has nothing to do syncs nothing: there may be a thousand days.
func TestCompactAgainSyncsNothing(t *testing.T) {
	d := newDisk(t)
	b := d.open()
	write(t, writer(t, b), batch(0, 2, 0), batch(2, 4, 0))
	compact(t, b)
	d.left = 0
	compact(t, b)
}

// A process is killed at any fsync, and another one does the same again before the power is
// cut: what it has said to be done is.
func TestPowerCutAfterKill(t *testing.T) {
	key := dead(1, 0).Key
	for name, do := range map[string]func(archive.Bucket, *archive.Writer) error{
		"write": func(_ archive.Bucket, w *archive.Writer) error { return hand(t.Context(), w, batch(4, 6, 0)) },
		"compact": func(b archive.Bucket, _ *archive.Writer) error {
			_, err := archive.Compact(t.Context(), b, nil)
			return err
		},
		"forget": func(b archive.Bucket, _ *archive.Writer) error {
			_, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{key}}, nil)
			return err
		},
	} {
		for _, began := range []bool{false, true} { // whether the other process read the day before the first was killed
			for n, killed := 0, true; killed; n++ {
				d := newDisk(t)
				b := d.open()
				write(t, writer(t, b), batch(0, 2, 0), batch(2, 4, 0))
				want := lives(t, b)
				switch name {
				case "write":
					for i := 4; i < 6; i++ {
						want = append(want, lifeOf(i))
					}
				case "forget":
					want = slices.DeleteFunc(want, func(id string) bool { return strings.Contains(id, key) })
				}
				other := d.open()
				w := writer(t, other)
				if began {
					write(t, w, batch(0, 2, 0))
				}
				d.left = n
				err := do(b, writer(t, b))
				if killed = err != nil; killed && !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				d.left = 1 << 30
				if err := do(other, w); err != nil {
					t.Fatal(err)
				}
				after := d.survives(name, want)
				if name == "forget" && len(holders(t, after, key)) > 0 {
					t.Errorf("killed at sync %d, what was forgotten comes back", n)
				}
			}
		}
	}
}

// At any fsync of a process that writes the first file of a day, another one writes a file to the
// same day, and the power is cut.
func TestPowerCutBesideFirst(t *testing.T) {
	for n, beside := 0, true; beside; n++ {
		d := newDisk(t)
		b, other := d.open(), d.open()
		syncs := 0
		beside = false
		d.at = func() {
			if syncs++; syncs != n+1 {
				return
			}
			beside = true
			write(t, writer(t, other), batch(2, 4, 0))
			d.survives("beside", []string{lifeOf(2), lifeOf(3)})
		}
		write(t, writer(t, b), batch(0, 2, 0))
		d.survives("after both", lives(t, b))
	}
}
