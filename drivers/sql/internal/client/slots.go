package client

import (
	"runtime"
	"sync"
	"weak"

	"golang.org/x/sync/semaphore"
)

// slots are those of the pools in use, by weak pointer.
var slots sync.Map

// unlimited is how many slots a pool without a limit has.
const unlimited = 32

// SlotsOf returns the slots of pool, which has at most conns connections; zero: no limit. A touch takes
// one while it uses a connection, so that touches which wait for locked rows leave reads a quarter of
// the pool. All drivers over a pool share them. Half the pool for touches is too little where every
// read is due: the others then read first and touch afterwards.
func SlotsOf[P any](pool *P, conns int) *semaphore.Weighted {
	most := unlimited
	if conns > 0 {
		most = max(1, conns*3/4)
	}
	key := weak.Make(pool)
	known, loaded := slots.LoadOrStore(key, semaphore.NewWeighted(int64(most)))
	if !loaded {
		runtime.AddCleanup(pool, func(key weak.Pointer[P]) { slots.Delete(key) }, key)
	}
	return known.(*semaphore.Weighted)
}
