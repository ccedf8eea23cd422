package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Directory is a Bucket in a directory of a local file system, which must have hard links.
type Directory struct {
	root    string
	fsync   func(*os.File) error
	durable sync.Map // directories whose entries this process has synced
}

// OpenDirectory returns the bucket in the directory at path. It creates the directory if
// necessary, readable by its owner only, and removes temporary files of killed processes.
func OpenDirectory(path string) (*Directory, error) { return openDirectory(path, (*os.File).Sync) }

func openDirectory(path string, fsync func(*os.File) error) (*Directory, error) {
	if path == "" {
		return nil, &driver.InvalidError{Field: "directory", Value: "empty", Rule: "must be a path"}
	}
	d := &Directory{root: filepath.Clean(path), fsync: fsync}
	err := d.makeDir(d.root)
	if err == nil {
		d.root, err = filepath.EvalSymlinks(d.root)
	}
	if err != nil {
		return nil, diskError(err)
	}
	return d, d.clean()
}

// Create implements Bucket. It writes and syncs a temporary file, links it to its name, and syncs
// the directory. A link, unlike a rename, never replaces a file.
func (d *Directory) Create(ctx context.Context, write func(io.Writer) (string, error)) error {
	return d.write(ctx, write, func(temp, path string) error {
		return errors.Join(os.Link(temp, path), os.Remove(temp))
	})
}

// Put implements Bucket.
func (d *Directory) Put(ctx context.Context, name string, content []byte) error {
	return d.write(ctx, func(w io.Writer) (string, error) {
		_, err := w.Write(content)
		return name, err
	}, os.Rename)
}

func (d *Directory) write(ctx context.Context, write func(io.Writer) (string, error), publish func(temp, path string) error) (err error) {
	f, err := d.temp()
	if err != nil {
		return diskError(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
		err = diskError(errors.Join(err, f.Close()))
	}()
	name, err := write(f)
	if err != nil {
		return err
	}
	path, err := d.path(name)
	if err != nil {
		return err
	}
	if err := d.fsync(f); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := d.makeDir(dir); err != nil {
		return err
	}
	err = publish(f.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Sync even if the file exists: its writer may have died before it synced.
	return errors.Join(err, d.syncDir(dir))
}

// ReadAt implements Bucket.
func (d *Directory) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	path, err := d.path(name)
	if err != nil {
		return 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, diskError(err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	n, err := f.ReadAt(p, off)
	return n, diskError(err)
}

// List implements Bucket. It follows symbolic links.
func (d *Directory) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) { d.list(ctx, "", prefix, yield) }
}

// list yields the files below dir, which is empty or ends in a slash. It returns false to stop.
func (d *Directory) list(ctx context.Context, dir, prefix string, yield func(Info, error) bool) bool {
	entries, err := os.ReadDir(filepath.Join(d.root, dir))
	if errors.Is(err, fs.ErrNotExist) && dir != "" {
		return true // it was removed meanwhile
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		yield(Info{}, diskError(err))
		return false
	}
	for _, e := range entries {
		name := dir + e.Name()
		if strings.HasPrefix(name, tempPrefix) || !strings.HasPrefix(name, prefix) && !strings.HasPrefix(prefix, name+"/") {
			continue
		}
		var i fs.FileInfo
		if e.Type()&fs.ModeSymlink != 0 {
			i, err = os.Stat(filepath.Join(d.root, name)) // a link to nothing is an error
		} else if i, err = e.Info(); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		more := false
		switch {
		case err != nil:
			yield(Info{}, diskError(err))
		case i.IsDir():
			more = d.list(ctx, name+"/", prefix, yield)
		default:
			more = yield(Info{Name: name, Size: i.Size()}, nil)
		}
		if !more {
			return false
		}
	}
	return true
}

// Rename implements Bucket.
func (d *Directory) Rename(ctx context.Context, from, to string) error {
	old, err := d.path(from)
	if err != nil {
		return err
	}
	path, err := d.path(to)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if err := os.Rename(old, path); err != nil {
		return diskError(err)
	}
	return diskError(d.syncDir(filepath.Dir(path)))
}

// Remove implements Bucket.
func (d *Directory) Remove(ctx context.Context, name string) error {
	if err := d.unlink(ctx, name); err != nil {
		return err
	}
	err := d.syncDir(filepath.Dir(filepath.Join(d.root, name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return diskError(err)
}

// unlink is Remove without the sync: a power cut may undo it until the directory is synced.
func (d *Directory) unlink(ctx context.Context, name string) error {
	path, err := d.path(name)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if to, err := os.Readlink(path); err == nil { // the file goes with its link
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return diskError(err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError(err)
	}
	return nil
}

func (d *Directory) path(name string) (string, error) {
	local, err := filepath.Localize(name)
	if err != nil {
		return "", &driver.InvalidError{Field: "name", Value: fmt.Sprintf("%q", name), Rule: "must be a relative path with slashes", Err: err}
	}
	return filepath.Join(d.root, local), nil
}
