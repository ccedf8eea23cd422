package client

import (
	"context"
	"runtime"
	"sync"
	"weak"

	"golang.org/x/sync/semaphore"
)

// slots are those of the pools in use, by weak pointer.
var slots sync.Map

// unlimited is how many slots a pool without a limit has.
const unlimited = 32

// Slots are those of a driver over a pool.
type Slots struct{ own, shared *semaphore.Weighted }

// SlotsOf returns slots of pool, which has at most conns connections; zero: no limit. A touch takes
// one while it uses a connection, so that touches which wait for locked rows leave reads a quarter of
// the pool. All drivers over a pool share them, and each leaves the others at least one where there are
// several. Half the pool for touches is too little where every read is due: the others then read first
// and touch afterwards.
func SlotsOf[P any](pool *P, conns int) *Slots {
	most := unlimited
	if conns > 0 {
		most = max(1, conns*3/4)
	}
	key := weak.Make(pool)
	known, loaded := slots.LoadOrStore(key, semaphore.NewWeighted(int64(most)))
	if !loaded {
		runtime.AddCleanup(pool, func(key weak.Pointer[P]) { slots.Delete(key) }, key)
	}
	return &Slots{semaphore.NewWeighted(int64(max(1, most-max(1, most/8)))), known.(*semaphore.Weighted)}
}

// Acquire waits for a slot until ctx ends.
func (s *Slots) Acquire(ctx context.Context) error {
	if err := s.own.Acquire(ctx, 1); err != nil {
		return err
	}
	err := s.shared.Acquire(ctx, 1)
	if err != nil {
		s.own.Release(1)
	}
	return err
}

// TryAcquire takes a slot if one is free.
func (s *Slots) TryAcquire() bool {
	if !s.own.TryAcquire(1) {
		return false
	}
	ok := s.shared.TryAcquire(1)
	if !ok {
		s.own.Release(1)
	}
	return ok
}

// Release gives a slot back.
func (s *Slots) Release() {
	s.shared.Release(1)
	s.own.Release(1)
}
