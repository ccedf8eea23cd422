package fakestore

import (
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Store is the simplest store: a map behind a mutex. It never deletes expired records, like a store
// that deletes days late.
type Store[T any] struct {
	Driver[T]

	mu      sync.Mutex // guards the rest
	records map[string]*driver.Entry[T]
	version driver.Version
}

// New returns an empty Store, whose driver has no optional capability.
func New[T any](step time.Duration) *Store[T] {
	s := &Store[T]{records: make(map[string]*driver.Entry[T])}
	s.Step, s.Handle = step, s.Do
	return s
}

// Do answers c.
func (s *Store[T]) Do(c *Call[T]) {
	if c.Op == GetMulti {
		c.Each(s.Do)
		return
	}
	if c.Err = c.Ctx.Err(); c.Err == nil {
		c.Err = driver.CheckKey(c.Key, 0)
	}
	if c.Err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if is, writes := c.Apply(s.records[c.Key], s.version+1, Rules{}); writes {
		s.put(c.Key, is)
	}
}

// Plant stores a record as another program would: with any life, over anything.
func (s *Store[T]) Plant(key string, v T, life driver.Life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(key, &driver.Entry[T]{Value: v, Meta: driver.Meta{Life: life, Version: s.version + 1}})
}

func (s *Store[T]) put(key string, is *driver.Entry[T]) {
	if is == nil {
		delete(s.records, key)
		return
	}
	s.version = max(s.version, is.Version)
	s.records[key] = is
}
