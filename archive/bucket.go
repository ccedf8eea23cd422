package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Bucket holds named files: a directory ([OpenDirectory]), or a bucket of S3 (package
// archive/s3). Names are relative paths with slashes.
//
// All methods are safe for concurrent use, also by several processes. The error for an
// absent name matches fs.ErrNotExist, and for an existing one fs.ErrExist. No room is
// [ErrNoSpace], a missing right [ErrRefused], and a key service that does not answer or
// refuses [ErrKeyService]; each wraps the bucket's own error.
type Bucket interface {
	// Create writes a file in the directory dir, such as "day=2026-11-22/". The function write
	// writes its content and returns its name, which begins with dir. The file appears whole or not at all, and is durable when Create returns nil. If the name
	// exists: fs.ErrExist. If write fails there is no file, and Create returns write's
	// error. A write whose answer was lost may have landed.
	Create(ctx context.Context, dir string, write func(io.Writer) (name string, err error)) error

	// Put writes a small file, and replaces an existing one. It is durable when Put returns
	// nil. A reader gets all of the old file or all of the new one.
	Put(ctx context.Context, name string, content []byte) error

	// ReadAt reads len(p) bytes from off on, as io.ReaderAt does.
	ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error)

	// List returns all files whose names begin with prefix, in no order. It includes every
	// file that exists during the whole call.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]

	// Rename gives the file from the name to. The file exists under at least one of the two
	// names throughout. If to exists it is the same file, and from is removed.
	// If from and to are the same, the file moves to the storage class that is due.
	Rename(ctx context.Context, from, to string) error

	// Remove removes a file and all its versions that the bucket keeps. An absent file is
	// no error.
	Remove(ctx context.Context, name string) error
}

// Check reports whether b can hold an archive. It writes a file, and b must refuse to create another one with the same
// name.
func Check(ctx context.Context, b Bucket) error {
	const name = "checkpoints/slidingttl.check"
	if v, ok := b.(Versioned); ok { // Compact and Forget ask
		for _, err := range v.Hidden(ctx, name) {
			if err != nil {
				return fmt.Errorf("whether the bucket keeps versions: %w", err)
			}
		}
	}
	if err := b.Put(ctx, name, nil); err != nil {
		return err
	}
	err := b.Create(ctx, "checkpoints/", func(io.Writer) (string, error) { return name, nil })
	switch {
	case err == nil:
		return &driver.InvalidError{Field: "bucket", Value: "one that replaces a file (a server that ignores If-None-Match)", Rule: "must refuse to create a file that exists"}
	case errors.Is(err, fs.ErrExist):
		return nil
	}
	return err
}

// Info is a file in a listing.
type Info struct {
	Name  string
	Size  int64
	Moves bool // the file is due for another storage class: see Rename
}
