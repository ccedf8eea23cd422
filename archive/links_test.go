//go:build unix

package archive_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slidingttl/slidingttl/archive"
)

// relocate moves a file to another path, and leaves a symbolic link.
func relocate(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	ok(t, err)
	ok(t, os.WriteFile(to, content, 0o600))
	ok(t, os.Remove(from))
	ok(t, os.Symlink(to, from))
}

// What is forgotten is removed with each link that leads to it: a link to a link, and a relative link
// in a day that is a link itself.
func TestForgetBehindLinks(t *testing.T) {
	for name, link := range map[string]func(t *testing.T, file, target string){
		"one link": relocate,
		"a link to a link": func(t *testing.T, file, target string) {
			relocate(t, file, target)
			ok(t, os.Remove(file))
			ok(t, os.Symlink(target, target+".link"))
			ok(t, os.Symlink(target+".link", file))
		},
		"a relative link in a linked day": func(t *testing.T, file, target string) {
			relocate(t, file, target)
			ok(t, os.RemoveAll(filepath.Dir(file)))
			day := filepath.Join(filepath.Dir(target), "a", "day")
			ok(t, os.MkdirAll(day, 0o700))
			ok(t, os.Symlink(day, filepath.Dir(file)))
			ok(t, os.Symlink("../../"+filepath.Base(target), filepath.Join(day, filepath.Base(file))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, path := directory(t)
			write(t, writer(t, d), batch(0, 1, 0))
			target := filepath.Join(t.TempDir(), "file")
			link(t, filepath.Join(path, files(t, d)[0]), target)
			if found := all(t, d); len(found) != 1 {
				t.Fatalf("%d records are readable", len(found))
			}
			r, err := archive.Forget(t.Context(), d, archive.Selection{Keys: []string{dead(0, 0).Key}}, nil)
			if err != nil || r.Records != 1 {
				t.Errorf("%v, %v", r, err)
			}
			for _, left := range []string{target, target + ".link"} {
				if _, err := os.Lstat(left); !os.IsNotExist(err) {
					t.Errorf("%s is there, %v", left, err)
				}
			}
		})
	}
}

// A day may be a link to another file system: it is written, compacted and forgotten as the others.
// A killed writer's file goes there too.
func TestDayOnAnotherDisk(t *testing.T) {
	d, path := directory(t)
	write(t, writer(t, d), batch(0, 5, 0), batch(5, 10, 0))
	day := filepath.Join(path, "day=2026-11-22")
	other, err := os.MkdirTemp("/dev/shm", "")
	if err != nil {
		other = t.TempDir() // without a second file system this shows only that links are followed
	}
	t.Cleanup(func() { _ = os.RemoveAll(other) })
	entries, err := os.ReadDir(day)
	ok(t, err)
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(day, e.Name()))
		ok(t, err)
		ok(t, os.WriteFile(filepath.Join(other, e.Name()), content, 0o600))
	}
	left := filepath.Join(other, ".writing-17")
	ok(t, os.WriteFile(left, []byte(dead(1, 0).Key), 0o600))
	ok(t, os.RemoveAll(day))
	ok(t, os.Symlink(other, day))
	write(t, writer(t, d), batch(10, 15, 0))
	compact(t, d)
	_, err = archive.Forget(t.Context(), d, archive.Selection{Keys: []string{dead(1, 0).Key}}, nil)
	ok(t, err)
	if found := all(t, d); len(found) != 14 {
		t.Errorf("%d records", len(found))
	}
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("the file of a killed writer is there, %v", err)
	}
}

// What else lies in the directory is never opened, whatever it is: an archive may be the root of a disk.
func TestForeignEntries(t *testing.T) {
	d, path := directory(t)
	write(t, writer(t, d), batch(0, 3, 0), batch(3, 5, 0))
	ok(t, os.Symlink(".", filepath.Join(path, "here")))
	ok(t, os.Symlink("loop", filepath.Join(path, "loop")))
	ok(t, os.Symlink("nothing", filepath.Join(path, "latest")))
	ok(t, os.Mkdir(filepath.Join(path, "lost+found"), 0))
	ok(t, os.Mkdir(filepath.Join(path, "day=2026-11-22", "lost+found"), 0))
	ok(t, os.Symlink(".", filepath.Join(path, "day=2026-11-22", "here")))
	compact(t, d)
	if names := files(t, d); len(names) != 2 { // a merged file and its manifest
		t.Errorf("there are %q", names)
	}
	ok(t, os.Symlink("nothing", filepath.Join(path, "day=2026-11-23"))) // of the archive: what it holds is missing
	if _, err := archive.NewReader(d).Stats(t.Context(), archive.Span{}); err == nil {
		t.Error("a day that is a link to nothing is no error")
	}
}

// What one user writes, each user of the archive's directory can read: its files and days have the
// directory's permissions, and its owner where root writes.
func TestSharedDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive")
	ok(t, os.Mkdir(path, 0o700))
	ok(t, os.Chmod(path, os.ModeSetgid|0o750))
	const nobody = 65534
	if os.Getuid() == 0 {
		ok(t, os.Chown(path, nobody, nobody))
		ok(t, os.Chmod(path, os.ModeSetgid|0o750))
	}
	d, err := archive.OpenDirectory(path)
	ok(t, err)
	w := writer(t, d)
	write(t, w, batch(0, 3, 0), batch(3, 5, 0))
	ok(t, w.SaveCheckpoint(t.Context(), "x", nil))
	compact(t, d)
	ok(t, filepath.Walk(path, func(name string, i os.FileInfo, err error) error {
		ok(t, err)
		want := os.FileMode(0o640)
		if i.IsDir() {
			want = os.ModeDir | os.ModeSetgid | 0o750
		}
		s := i.Sys().(*syscall.Stat_t)
		if i.Mode() != want || os.Getuid() == 0 && (s.Uid != nobody || s.Gid != nobody) {
			t.Errorf("%s is %v, of %d:%d; want %v", strings.TrimPrefix(name, path), i.Mode(), s.Uid, s.Gid, want)
		}
		return nil
	}))
}
