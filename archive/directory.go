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
	"syscall"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Directory is a Bucket in a directory of a local file system, which must have hard links.
type Directory struct {
	root    string
	fsync   func(*os.File) error
	durable sync.Map // of the directories whose entries this process has made durable
}

const (
	tempPattern = ".writing-*"
	tempPrefix  = ".writing-"

	// tempAge is when a file that nobody writes to is no longer taken for one that
	// somebody does, where locks do not tell.
	tempAge = time.Hour
)

// OpenDirectory returns the bucket in the directory at path. It creates the directory if
// necessary, readable by its owner only. It removes what killed processes left unfinished.
func OpenDirectory(path string) (*Directory, error) { return openDirectory(path, (*os.File).Sync) }

func openDirectory(path string, fsync func(*os.File) error) (*Directory, error) {
	if path == "" {
		return nil, &driver.InvalidError{Field: "directory", Value: "empty", Rule: "must be a path"}
	}
	d := &Directory{root: filepath.Clean(path), fsync: fsync}
	if err := d.makeDir(d.root); err != nil {
		return nil, diskError(err)
	}
	return d, d.clean()
}

// clean removes files that nobody is writing any more.
func (d *Directory) clean() error {
	left, err := filepath.Glob(filepath.Join(d.root, tempPattern))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := removeAbandoned(path); err != nil {
			return diskError(err)
		}
	}
	return nil
}

// removeAbandoned removes the file at path if its writer is gone.
func removeAbandoned(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	abandoned, known := tryLock(f)
	if !known {
		i, err := f.Stat()
		abandoned = err == nil && time.Since(i.ModTime()) > tempAge
	}
	if !abandoned {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Create implements Bucket: a temporary file, its fsync, a link, and the fsync of the
// directory. A link, unlike a rename, never takes the place of a file.
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
	if err := ctx.Err(); err != nil {
		return err
	}
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
	// A file that exists may be one that its writer was killed before it could sync.
	return errors.Join(err, d.syncDir(dir))
}

// temp returns a new temporary file that clean leaves alone.
func (d *Directory) temp() (*os.File, error) {
	for {
		f, err := os.CreateTemp(d.root, tempPattern)
		if err != nil {
			return nil, err
		}
		locked, known := tryLock(f)
		if !known {
			return f, nil
		}
		// Until it was locked somebody may have taken it for abandoned.
		if _, err := os.Stat(f.Name()); locked && err == nil {
			return f, nil
		}
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
}

// makeDir makes a directory and those above it, and makes their entries durable: also that of
// one below the root which is there, for whoever made it may not have come to it.
func (d *Directory) makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		if i, e := os.Stat(dir); e != nil || !i.IsDir() {
			return err
		}
		if _, durable := d.durable.Load(dir); durable || len(dir) <= len(d.root) {
			return nil
		}
	} else if err != nil {
		return err
	}
	if err := d.syncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	d.durable.Store(dir, nil)
	return nil
}

// settle makes durable what a listing of a day shows in a directory: whoever wrote or removed a
// file may have been killed before it was.
func settle(b Bucket, day Day) error {
	d, ok := b.(*Directory)
	if !ok {
		return nil
	}
	err := d.syncDir(filepath.Join(d.root, day.directory()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return diskError(err)
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

// List implements Bucket.
func (d *Directory) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		stopped := errors.New("stopped")
		err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && path != d.root {
				return nil // it went meanwhile
			}
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			name, err := filepath.Rel(d.root, path)
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			if e.IsDir() {
				if name != "." && !strings.HasPrefix(name+"/", prefix) && !strings.HasPrefix(prefix, name+"/") {
					return fs.SkipDir
				}
				return nil
			}
			if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, tempPrefix) {
				return nil
			}
			i, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if !yield(Info{name, i.Size()}, nil) {
				return stopped
			}
			return nil
		})
		if err != nil && err != stopped {
			yield(Info{}, diskError(err))
		}
	}
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

// unlink is Remove, but that a power cut may undo it until the directory is synced.
func (d *Directory) unlink(ctx context.Context, name string) error {
	path, err := d.path(name)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
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

func (d *Directory) syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.fsync(f), f.Close())
}

// diskError names what kind of failure err is.
func diskError(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrNoSpace), errors.Is(err, ErrRefused):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
