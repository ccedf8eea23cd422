package sql

import (
	"cmp"
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// slots bounds the connections that touches use at once, so that touches which wait for locked rows
// leave reads their share of the pool: half of it, or 32 connections if it has no limit.
type slots struct {
	once sync.Once
	all  *semaphore.Weighted
}

func (s *slots) of(t *table) *semaphore.Weighted {
	s.once.Do(func() {
		n := cmp.Or(t.pool.MaxConns(), 64)
		s.all = semaphore.NewWeighted(int64(max(1, n/2)))
	})
	return s.all
}

// take waits for a slot.
func (s *slots) take(ctx context.Context, t *table) error { return s.of(t).Acquire(ctx, 1) }

// try takes a slot if one is free.
func (s *slots) try(t *table) bool { return s.of(t).TryAcquire(1) }

func (s *slots) pass() { s.all.Release(1) }
