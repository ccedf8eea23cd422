package archive

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

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

func (d *Directory) syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.fsync(f), f.Close())
}
