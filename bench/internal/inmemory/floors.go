package inmemory

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// floorRecord is the least that slides.
type floorRecord struct {
	value   value
	expires atomic.Int64 // Unix milliseconds
}

func newFloorRecord(v value, expires int64) *floorRecord {
	r := &floorRecord{value: v}
	r.expires.Store(expires)
	return r
}

// shards is a map of 256 shards, each behind a lock.
type shards struct {
	seed maphash.Seed
	of   [256]struct {
		sync.RWMutex
		m map[string]*floorRecord
		_ [64]byte // a cache line of its own for each lock
	}
}

func newShards() *shards {
	s := &shards{seed: maphash.MakeSeed()}
	for i := range s.of {
		s.of[i].m = make(map[string]*floorRecord)
	}
	return s
}

func (s *shards) get(key string) *floorRecord {
	of := &s.of[maphash.String(s.seed, key)%uint64(len(s.of))]
	of.RLock()
	r := of.m[key]
	of.RUnlock()
	return r
}

func (s *shards) put(key string, r *floorRecord) {
	of := &s.of[maphash.String(s.seed, key)%uint64(len(s.of))]
	of.Lock()
	of.m[key] = r
	of.Unlock()
}

// floor reads the system clock and stores an expiry on every read.
type floor struct {
	*shards
	idle int64
}

func openFloor(idle time.Duration) (store, error) {
	return floor{newShards(), idle.Milliseconds()}, nil
}

func (f floor) hit(key string) (value, bool) {
	r := f.get(key)
	now := time.Now().UnixMilli()
	if r == nil || r.expires.Load() <= now {
		return value{}, false
	}
	r.expires.Store(now + f.idle)
	return r.value, true
}

func (f floor) put(key string, v value) error {
	f.shards.put(key, newFloorRecord(v, time.Now().UnixMilli()+f.idle))
	return nil
}

func (f floor) close() {}

// ticking is a clock that a goroutine reads once a millisecond.
type ticking struct {
	now  atomic.Int64 // Unix milliseconds
	stop chan struct{}
}

func newTicking() *ticking {
	t := &ticking{stop: make(chan struct{})}
	t.now.Store(time.Now().UnixMilli())
	go func() {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-t.stop:
				return
			case <-ticker.C:
				t.now.Store(time.Now().UnixMilli())
			}
		}
	}()
	return t
}

// floorWhenDue reads a coarse clock and stores an expiry only when what is stored
// keeps less than the idle timeout, with a slack of a tenth.
type floorWhenDue struct {
	*shards
	clock       *ticking
	idle, slack int64
}

func openFloorDue(idle time.Duration) (store, error) {
	return floorWhenDue{newShards(), newTicking(), idle.Milliseconds(), idle.Milliseconds() / 10}, nil
}

func (f floorWhenDue) hit(key string) (value, bool) {
	r := f.get(key)
	if r == nil {
		return value{}, false
	}
	now, expires := f.clock.now.Load(), r.expires.Load()
	if expires <= now {
		return value{}, false
	}
	if expires < now+f.idle {
		r.expires.Store(now + f.idle + f.slack)
	}
	return r.value, true
}

func (f floorWhenDue) put(key string, v value) error {
	f.shards.put(key, newFloorRecord(v, f.clock.now.Load()+f.idle+f.slack))
	return nil
}

func (f floorWhenDue) close() { close(f.clock.stop) }

// syncMap reads the system clock and stores an expiry on every read.
type syncMap struct {
	m    *sync.Map
	idle int64
}

func openSyncMap(idle time.Duration) (store, error) {
	return syncMap{new(sync.Map), idle.Milliseconds()}, nil
}

func (s syncMap) hit(key string) (value, bool) {
	x, ok := s.m.Load(key)
	now := time.Now().UnixMilli()
	if !ok {
		return value{}, false
	}
	r := x.(*floorRecord)
	if r.expires.Load() <= now {
		return value{}, false
	}
	r.expires.Store(now + s.idle)
	return r.value, true
}

func (s syncMap) put(key string, v value) error {
	s.m.Store(key, newFloorRecord(v, time.Now().UnixMilli()+s.idle))
	return nil
}

func (s syncMap) close() { s.m.Clear() }
