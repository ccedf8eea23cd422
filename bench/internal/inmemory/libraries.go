package inmemory

import (
	"time"

	"github.com/alexedwards/scs/v2/memstore"
	"github.com/dgraph-io/ristretto/v2"
	"github.com/hashicorp/golang-lru/v2/expirable"
	"github.com/jellydator/ttlcache/v3"
	gocache "github.com/patrickmn/go-cache"
)

// ttlCache touches on every hit, its default.
type ttlCache struct {
	c *ttlcache.Cache[string, value]
}

func openTTLCache(idle time.Duration) (store, error) {
	c := ttlcache.New(ttlcache.WithTTL[string, value](idle))
	go c.Start()
	return ttlCache{c}, nil
}

func (t ttlCache) hit(key string) (value, bool) {
	item := t.c.Get(key)
	if item == nil {
		return value{}, false
	}
	return item.Value(), true
}

func (t ttlCache) put(key string, v value) error {
	t.c.Set(key, v, ttlcache.DefaultTTL)
	return nil
}

func (t ttlCache) putUntil(key string, v value, at time.Time) error {
	t.c.Set(key, v, time.Until(at))
	return nil
}

// held does not ask for the cache's Len, which leaves out the dead.
func (t ttlCache) held() int {
	m := t.c.Metrics()
	return int(m.Insertions - m.Evictions)
}

func (t ttlCache) close() { t.c.Stop() }

// scsStore slides as scs does with an IdleTimeout: find, then commit with a new expiry.
type scsStore struct {
	m    *memstore.MemStore
	idle time.Duration
}

func openSCS(idle time.Duration) (store, error) { return scsStore{memstore.New(), idle}, nil }

func (s scsStore) hit(key string) (v value, ok bool) {
	b, ok, err := s.m.Find(key)
	if !ok || err != nil {
		return v, false
	}
	copy(v[:], b)
	return v, s.m.Commit(key, b, time.Now().Add(s.idle)) == nil
}

func (s scsStore) put(key string, v value) error {
	return s.m.Commit(key, v[:], time.Now().Add(s.idle))
}

func (s scsStore) close() { s.m.StopCleanup() }

// goCache slides by a set of what was got.
type goCache struct{ c *gocache.Cache }

func openGoCache(idle time.Duration) (store, error) {
	return goCache{gocache.New(idle, time.Second)}, nil
}

func (g goCache) hit(key string) (value, bool) {
	x, ok := g.c.Get(key)
	if !ok {
		return value{}, false
	}
	g.c.SetDefault(key, x)
	return x.(value), true
}

func (g goCache) put(key string, v value) error {
	g.c.SetDefault(key, v)
	return nil
}

func (g goCache) putUntil(key string, v value, at time.Time) error {
	g.c.Set(key, v, time.Until(at))
	return nil
}

func (g goCache) held() int { return g.c.ItemCount() }

func (g goCache) close() { g.c.Flush() }

// ristrettoCache slides by a set of what was got. It may drop a set of a new key
// when its buffer is full, which put tries again.
type ristrettoCache struct {
	c    *ristretto.Cache[string, value]
	idle time.Duration
}

func openRistretto(idle time.Duration) (store, error) {
	c, err := ristretto.NewCache(&ristretto.Config[string, value]{
		NumCounters:        10_000_000,
		MaxCost:            1 << 40,
		BufferItems:        64,
		IgnoreInternalCost: true,
	})
	return ristrettoCache{c, idle}, err
}

func (r ristrettoCache) hit(key string) (value, bool) {
	v, ok := r.c.Get(key)
	if !ok {
		return v, false
	}
	return v, r.c.SetWithTTL(key, v, 1, r.idle)
}

func (r ristrettoCache) put(key string, v value) error {
	for !r.c.SetWithTTL(key, v, 1, r.idle) {
		r.c.Wait()
	}
	return nil
}

func (r ristrettoCache) settle() { r.c.Wait() }

func (r ristrettoCache) close() { r.c.Close() }

// lru slides by an add of what was got.
type lru struct{ c *expirable.LRU[string, value] }

func openLRU(idle time.Duration) (store, error) {
	return lru{expirable.NewLRU[string, value](0, nil, idle)}, nil
}

func (l lru) hit(key string) (value, bool) {
	v, ok := l.c.Get(key)
	if ok {
		l.c.Add(key, v)
	}
	return v, ok
}

func (l lru) put(key string, v value) error {
	l.c.Add(key, v)
	return nil
}

func (l lru) close() { l.c.Purge() }
