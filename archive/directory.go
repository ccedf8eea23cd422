package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// directory is a Bucket in a directory of a local file system, which must have hard links. Directories
// within it may be symbolic links, also to other file systems.
type directory struct {
	root    string
	fsync   func(*os.File) error
	durable sync.Map // directories whose entries this process has synced
}

// OpenDirectory returns the bucket in the directory at path. It creates the directory if
// necessary, readable by its owner only, and removes temporary files of killed processes, if it may.
//
// Files and directories within it have its permissions, and its owner where the process may give
// them away: what root writes, the owner of the archive can read.
func OpenDirectory(path string) (Bucket, error) { return openDirectory(path, (*os.File).Sync) }

func openDirectory(path string, fsync func(*os.File) error) (Bucket, error) {
	if path == "" {
		return nil, &driver.InvalidError{Field: "directory", Value: "empty", Rule: "must be a path"}
	}
	d := &directory{root: filepath.Clean(path), fsync: fsync}
	err := d.makeDir(d.root)
	if err == nil {
		d.root, err = filepath.EvalSymlinks(d.root)
	}
	if err != nil {
		return nil, diskError(err)
	}
	if err := d.clean(); err != nil && !errors.Is(err, ErrRefused) {
		return nil, err
	}
	return d, nil
}

// Create implements Bucket. It writes and syncs a temporary file, links it to its name, and syncs
// the directory. A link, unlike a rename, never replaces a file.
func (d *directory) Create(ctx context.Context, dir string, write func(io.Writer) (string, error)) error {
	return d.write(ctx, dir, write, func(temp, path string) error {
		return errors.Join(os.Link(temp, path), os.Remove(temp))
	})
}

// Put implements Bucket.
func (d *directory) Put(ctx context.Context, name string, content []byte) error {
	return d.write(ctx, path.Dir(name), func(w io.Writer) (string, error) {
		_, err := w.Write(content)
		return name, err
	}, os.Rename)
}

func (d *directory) write(ctx context.Context, dir string, write func(io.Writer) (string, error), publish func(temp, path string) error) (err error) {
	if dir, err = d.path(path.Clean(dir)); err != nil {
		return err
	}
	if err := d.makeDir(dir); err != nil {
		return diskError(err)
	}
	f, err := temp(dir)
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
	err = publish(f.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Sync even if the file exists: its writer may have died before it synced.
	return errors.Join(err, d.syncDir(dir))
}

// ReadAt implements Bucket.
func (d *directory) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
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

// List implements Bucket. It lists the archive's own directories, and follows symbolic links.
func (d *directory) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return d.list(ctx, prefix, false)
}

// list yields the files of the archive's directories, or the temporary files there.
func (d *directory) list(ctx context.Context, prefix string, temporary bool) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		dirs, err := os.ReadDir(d.root)
		if err != nil {
			yield(Info{}, diskError(err))
			return
		}
		for _, dir := range dirs {
			name := dir.Name() + "/"
			isDay := strings.HasPrefix(name, dayPrefix) || name == quarantinePrefix
			linked := dir.Type()&fs.ModeSymlink != 0
			if !isDay && name != checkpointPrefix || !dir.IsDir() && !linked || !strings.HasPrefix(name, prefix) && !strings.HasPrefix(prefix, name) {
				continue
			}
			files, err := os.ReadDir(filepath.Join(d.root, name))
			if errors.Is(err, fs.ErrNotExist) && !linked { // a link to nothing is an error
				continue // it was removed meanwhile
			}
			if err := errors.Join(err, ctx.Err()); err != nil {
				yield(Info{}, diskError(err))
				return
			}
			for _, f := range files {
				name := name + f.Name()
				if strings.HasPrefix(f.Name(), tempPrefix) != temporary || !strings.HasPrefix(name, prefix) {
					continue
				}
				i, err := f.Info()
				if err == nil && i.Mode()&fs.ModeSymlink != 0 && !temporary {
					i, err = os.Stat(filepath.Join(d.root, name))
				} else if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					yield(Info{}, diskError(err))
					return
				}
				if !i.IsDir() && !yield(Info{Name: name, Size: i.Size()}, nil) {
					return
				}
			}
		}
	}
}

// Rename implements Bucket.
func (d *directory) Rename(ctx context.Context, from, to string) error {
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
func (d *directory) Remove(ctx context.Context, name string) error {
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
func (d *directory) unlink(ctx context.Context, name string) error {
	path, err := d.path(name)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // a loop of links
		return diskError(err)
	}
	return diskError(d.removeLinked(path))
}

// removeLinked removes a file, and before it all that it leads to by symbolic links.
func (d *directory) removeLinked(path string) error {
	if to, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(to) {
			dir, _ := filepath.Split(path)
			to = dir + to // not Join: it would resolve .. without a look at links
		}
		if err := d.removeLinked(to); err != nil {
			return err
		}
		if err := d.syncDir(filepath.Dir(to)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (d *directory) path(name string) (string, error) {
	local, err := filepath.Localize(name)
	if err != nil {
		return "", &driver.InvalidError{Field: "name", Value: fmt.Sprintf("%q", name), Rule: "must be a relative path with slashes", Err: err}
	}
	return filepath.Join(d.root, local), nil
}
