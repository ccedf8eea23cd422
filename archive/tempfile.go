package archive

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	tempPrefix = ".writing-"

	// tempAge is the age after which an unchanged temporary file counts as abandoned. It
	// serves file systems without locks.
	tempAge = time.Hour
)

// clean removes the temporary files that killed processes left behind.
func (d *Directory) clean() error {
	entries, err := os.ReadDir(d.root)
	if err != nil {
		return diskError(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		if err := removeAbandoned(filepath.Join(d.root, e.Name())); err != nil {
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

// temp returns a new temporary file, locked so that clean keeps it.
func (d *Directory) temp() (*os.File, error) {
	for {
		f, err := os.CreateTemp(d.root, tempPrefix+"*")
		if err != nil {
			return nil, err
		}
		locked, known := tryLock(f)
		_, err = os.Stat(f.Name()) // another process may have removed it as abandoned before it was locked
		if !known || locked && err == nil {
			return f, nil
		}
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
}
