package s3

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/singleflight"
)

// cache keeps the files that were read last, decrypted, up to a number of bytes.
type cache struct {
	most   int64
	flight singleflight.Group

	mu    sync.Mutex
	held  int64             // guarded by mu, as are those below
	order []string          // names, most recently used last
	files map[string][]byte // by name
}

func newCache(most int64) *cache { return &cache{most: most, files: map[string][]byte{}} }

// get returns a file. If it is not cached, concurrent callers share one call of read.
func (c *cache) get(ctx context.Context, name string, read func(context.Context, string) ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	content, ok := c.files[name]
	if ok {
		c.put(name, content)
	}
	c.mu.Unlock()
	if ok {
		return content, nil
	}
	result := c.flight.DoChan(name, func() (any, error) {
		content, err := read(context.WithoutCancel(ctx), name)
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.put(name, content)
		}
		return content, err
	})
	select {
	case r := <-result:
		content, _ := r.Val.([]byte)
		return content, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// put keeps a file as the one most recently used. The caller holds mu.
func (c *cache) put(name string, content []byte) {
	c.remove(name)
	c.order, c.files[name] = append(c.order, name), content
	c.held += int64(len(content))
	for c.held > c.most && len(c.order) > 1 {
		c.remove(c.order[0])
	}
}

func (c *cache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(name)
}

// remove removes a file, if it is kept. The caller holds mu.
func (c *cache) remove(name string) {
	c.held -= int64(len(c.files[name]))
	delete(c.files, name)
	if i := slices.Index(c.order, name); i >= 0 {
		c.order = slices.Delete(c.order, i, i+1)
	}
}
