package archive

import (
	"context"
	"io"
	"iter"
)

// Bucket holds named files: a directory ([OpenDirectory]), or a bucket of S3 (package
// archive/s3). Names are relative paths with slashes.
//
// All methods are safe for concurrent use, also by several processes. A name that is not
// there is an error that matches fs.ErrNotExist, one that is there already fs.ErrExist. No
// room is [ErrNoSpace], a lack of rights [ErrRefused], and a service of keys that does not
// answer or does not serve [ErrKeyService]; each wraps the bucket's own error.
type Bucket interface {
	// Create writes a file under a name that write returns when it has written all of
	// it. The file appears whole or not at all, and is durable when Create returns
	// nil. If the name is taken: fs.ErrExist. Where write fails there is no file, and
	// its error is returned. A write whose answer was lost may have landed.
	Create(ctx context.Context, write func(io.Writer) (name string, err error)) error

	// Put writes a small file, in the place of one that may be there. It is durable
	// when Put returns nil, and whoever reads it reads all of the old or the new.
	Put(ctx context.Context, name string, content []byte) error

	// ReadAt reads len(p) bytes that begin at off, as io.ReaderAt does.
	ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error)

	// List returns all files whose names begin with prefix, in no order. A file that
	// is there from before the call until its end is in it.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]

	// Remove removes a file and whatever the bucket keeps of it. One that is not there
	// is no error.
	Remove(ctx context.Context, name string) error
}

// Info is what a listing tells of a file.
type Info struct {
	Name string
	Size int64
}
