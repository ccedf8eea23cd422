package sql

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// slots bounds the connections that touches use at once, so that touches which wait for locked rows
// leave reads a quarter of the pool. Without a limit touches use unlimited at most. Half the pool for
// touches is too little where every read is due: the others then read first and touch afterwards.
type slots struct {
	once sync.Once
	all  *semaphore.Weighted
}

const unlimited = 32

func (s *slots) of(t *table) *semaphore.Weighted {
	s.once.Do(func() {
		most := unlimited
		if n := t.pool.MaxConns(); n > 0 {
			most = max(1, n*3/4)
		}
		s.all = semaphore.NewWeighted(int64(most))
	})
	return s.all
}

// take waits for a slot.
func (s *slots) take(ctx context.Context, t *table) error { return s.of(t).Acquire(ctx, 1) }

// try takes a slot if one is free.
func (s *slots) try(t *table) bool { return s.of(t).TryAcquire(1) }

func (s *slots) pass() { s.all.Release(1) }
