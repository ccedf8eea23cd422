package archive_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/slidingttl/slidingttl/archive"
)

// A file exists whole or not at all, and is not replaced. While it is written, other processes
// neither see nor remove it.
func TestCreate(t *testing.T) {
	b, path := directory(t)
	create := func(content string, before func() error) error {
		return b.Create(t.Context(), "day=2026-11-22/", func(w io.Writer) (string, error) {
			_, err := io.WriteString(w, content)
			return "day=2026-11-22/x", errors.Join(err, before())
		})
	}
	has := func(want int, content string) {
		t.Helper()
		if names := files(t, b); len(names) != want {
			t.Errorf("there are %q; want %d files", names, want)
		}
		got, err := os.ReadFile(filepath.Join(path, "day=2026-11-22", "x"))
		if err != nil && want > 0 || string(got) != content {
			t.Errorf("it has %q, %v; want %q", got, err, content)
		}
	}
	clean := func() {
		t.Helper()
		if left, err := filepath.Glob(filepath.Join(path, "*", ".writing-*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
	}
	failed := errors.New("failed")
	if err := create("half", func() error { has(0, ""); return failed }); !errors.Is(err, failed) {
		t.Errorf("a write that fails: %v", err)
	}
	has(0, "")
	clean()
	if err := create("first", func() error { _, err := archive.OpenDirectory(path); return err }); err != nil {
		t.Errorf("while another opens the directory: %v", err)
	}
	has(1, "first")
	if err := create("second", func() error { return nil }); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a name that is taken: %v", err)
	}
	has(1, "first")
	clean()
}

// What a process that was killed has left goes when the directory is opened, whose name may hold
// what is a pattern's. Another directory's stays.
func TestOpenCleans(t *testing.T) {
	parent := t.TempDir()
	path, other := filepath.Join(parent, "a[*"), filepath.Join(parent, "a[b", ".writing-17")
	for _, name := range []string{"a[b", "a[*/day=2026-11-22"} {
		if err := os.MkdirAll(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(other, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(path, "day=2026-11-22", ".writing-17")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.OpenDirectory(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
	if _, err := archive.OpenDirectory(filepath.Join(path, "day=2026-11-22")); err != nil {
		t.Error(err)
	}
	file := filepath.Join(path, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.OpenDirectory(file); err == nil {
		t.Error("a file is taken for a directory")
	}
}

// A listing passes over what is removed while it is made: files, and days that are empty by then.
func TestListBesideRemoval(t *testing.T) {
	d, path := directory(t)
	for _, name := range []string{"day=2026-11-22/a", "day=2026-11-22/b", "day=2026-11-23/c"} {
		if err := d.Put(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
	listed := 0
	for _, err := range d.List(t.Context(), "") {
		if err != nil {
			t.Error(err)
		}
		listed++
		for _, name := range []string{"day=2026-11-22/b", "day=2026-11-23"} {
			if err := os.RemoveAll(filepath.Join(path, name)); err != nil {
				t.Error(err)
			}
		}
	}
	if listed != 1 {
		t.Errorf("%d files were listed", listed)
	}
}

// Two processes that open a directory at once may find the same file abandoned: for one of them
// it is gone by then, as what a symbolic link to nothing names.
func TestOpenBesideAnother(t *testing.T) {
	_, path := directory(t)
	if err := os.Mkdir(filepath.Join(path, "day=2026-11-22"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nothing", filepath.Join(path, "day=2026-11-22", ".writing-17")); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.OpenDirectory(path); err != nil {
		t.Error(err)
	}
}

// Files are renamed, and named, below the directory alone.
func TestRename(t *testing.T) {
	d, path := directory(t)
	if err := d.Put(t.Context(), "day=2026-11-22/a", []byte("a")); err != nil {
		t.Fatal(err)
	}
	if err := d.Rename(t.Context(), "day=2026-11-22/a", "day=2026-11-22/b"); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(path, "day=2026-11-22", "b")); string(got) != "a" {
		t.Errorf("%q, %v", got, err)
	}
	if err := d.Rename(t.Context(), "day=2026-11-22/a", "day=2026-11-22/c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := d.Put(t.Context(), "../a", nil); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file outside: %v", err)
	}
	for _, names := range [][2]string{{"../a", "a"}, {"day=2026-11-22/b", "../b"}} {
		if err := d.Rename(t.Context(), names[0], names[1]); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", names, err)
		}
	}
}

// A write whose context ends leaves nothing.
func TestCreateEnds(t *testing.T) {
	d, _ := directory(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := d.Create(ctx, "day=2026-11-22/", func(io.Writer) (string, error) {
		cancel()
		return "day=2026-11-22/x", nil
	})
	if names := files(t, d); !errors.Is(err, context.Canceled) || len(names) > 0 {
		t.Errorf("%v, and %q", err, names)
	}
}
