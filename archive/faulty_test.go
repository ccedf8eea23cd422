package archive_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/slidingttl/slidingttl/archive"
)

var errCrash = errors.New("crashed")

// crashing is a bucket whose process dies at a call that changes it, before or after the change.
// All later calls fail.
type crashing struct {
	archive.Bucket
	left  atomic.Int64 // calls
	after bool
}

func crash(b archive.Bucket, calls int, after bool) *crashing {
	c := &crashing{Bucket: b, after: after}
	c.left.Store(int64(calls))
	return c
}

func (c *crashing) do(op func() error) error {
	left := c.left.Add(-1)
	if left >= 0 {
		return op()
	}
	if left == -1 && c.after {
		_ = op()
	}
	return errCrash
}

func (c *crashing) Create(ctx context.Context, dir string, write func(io.Writer) (string, error)) error {
	return c.do(func() error { return c.Bucket.Create(ctx, dir, write) })
}

func (c *crashing) Put(ctx context.Context, name string, content []byte) error {
	return c.do(func() error { return c.Bucket.Put(ctx, name, content) })
}

func (c *crashing) Remove(ctx context.Context, name string) error {
	return c.do(func() error { return c.Bucket.Remove(ctx, name) })
}

func (c *crashing) Rename(ctx context.Context, from, to string) error {
	return c.do(func() error { return c.Bucket.Rename(ctx, from, to) })
}
