package archive

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// makeDir makes a directory and its parents, and makes their entries durable.
//
// It syncs the entry of an existing directory below the root too: the process that made it
// may have died before it synced.
func (d *directory) makeDir(dir string) error {
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
	} else if len(dir) > len(d.root) {
		if err := share(dir, fs.ModeSetgid|0o777); err != nil {
			return err
		}
	}
	if err := d.syncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	d.durable.Store(dir, nil)
	return nil
}

// syncDay makes a day's listing durable: a process may have died before it synced a change.
func syncDay(b Bucket, day Day) error {
	d, ok := b.(*directory)
	if !ok {
		return nil
	}
	err := d.syncDir(filepath.Join(d.root, day.directory()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return diskError(err)
}

func (d *directory) syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.fsync(f), f.Close())
}
