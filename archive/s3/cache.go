package s3

import (
	"container/list"
	"context"
	"sync"

	"golang.org/x/sync/singleflight"
)

// cache keeps the files that were read last, decrypted, up to a number of bytes.
type cache struct {
	most   int64
	flight singleflight.Group

	mu    sync.Mutex
	held  int64                    // guarded by mu, as are those below
	order *list.List               // of *cached, most recently used first
	files map[string]*list.Element // by name
}

type cached struct {
	name    string
	content []byte
}

func newCache(most int64) *cache {
	return &cache{most: most, order: list.New(), files: map[string]*list.Element{}}
}

// get returns a file. If it is not cached, concurrent callers share one call of read.
func (c *cache) get(ctx context.Context, name string, read func(context.Context, string) ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	e, ok := c.files[name]
	if ok {
		c.order.MoveToFront(e)
	}
	c.mu.Unlock()
	if ok {
		return e.Value.(*cached).content, nil
	}
	result := c.flight.DoChan(name, func() (any, error) {
		content, err := read(context.WithoutCancel(ctx), name)
		if err == nil {
			c.add(name, content)
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

func (c *cache) add(name string, content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.files[name]; ok {
		return
	}
	c.files[name] = c.order.PushFront(&cached{name, content})
	c.held += int64(len(content))
	for c.held > c.most && c.order.Len() > 1 {
		c.forget(c.order.Back())
	}
}

func (c *cache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.files[name]; ok {
		c.forget(e)
	}
}

// forget removes e. The caller holds mu.
func (c *cache) forget(e *list.Element) {
	f := e.Value.(*cached)
	c.order.Remove(e)
	delete(c.files, f.name)
	c.held -= int64(len(f.content))
}
