package archive

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	tempPrefix = ".writing-"

	// tempAge is the age after which an unchanged temporary file counts as abandoned. It
	// serves file systems without locks.
	tempAge = time.Hour
)

// clean removes the temporary files that killed processes left behind.
func (d *directory) clean() error {
	var errs []error
	for i, err := range d.list(context.Background(), "", true) {
		if err == nil {
			err = diskError(removeAbandoned(filepath.Join(d.root, i.Name)))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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

// temp returns a new temporary file in a directory, locked so that clean keeps it.
func temp(dir string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(dir, tempPrefix+"*")
		if err != nil {
			return nil, err
		}
		locked, known := tryLock(f)
		err = share(f.Name(), 0o666)
		if err == nil && (!known || locked) {
			return f, nil
		}
		_ = f.Close()
		_ = os.Remove(f.Name())
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // else another process took it for abandoned before it was locked
			return nil, err
		}
	}
}

// share gives a new file or directory the owner and the permissions, within mode, of the directory
// that it is in.
func share(path string, mode fs.FileMode) error {
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	own, err := os.Stat(path)
	if err != nil {
		return err
	}
	chown(path, own, dir)
	if dir.Mode()&mode == own.Mode()&mode {
		return nil
	}
	return os.Chmod(path, dir.Mode()&mode)
}
