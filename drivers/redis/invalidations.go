package redis

import (
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// Invalidations passes on the servers' push messages about records that a client has read.
// A message says that the record was written or deleted, or has expired. It is for caches
// in this process's memory, such as drivers/hot:
//
//	var pushed redis.Invalidations
//	client, err := rueidis.NewClient(pushed.Track(rueidis.ClientOption{...}))
//	...
//	pushed.Tell("link:", tier) // the driver's Options.Prefix
//
// It is the server's client tracking, in the mode in which all that is read is tracked (CLIENT
// TRACKING ON OPTOUT): the server remembers once for each connection and key that it was read, up to
// its tracking-table-max-keys. A write of this process's own is pushed as well. The zero value is
// ready for use. All methods are safe for concurrent use.
type Invalidations struct {
	mu    sync.RWMutex // guards tiers
	tiers []told
}

// Forgetter holds records in memory.
type Forgetter interface {
	Forget(key string) // what was held of key is out of date
	ForgetAll()        // any of it may be
}

type told struct {
	prefix string
	tier   Forgetter
}

// Track returns o with tracking of all that the client reads. It must not have DisableCache set;
// an OnInvalidations of its own is called first. The client's own caching (DoCache) does not
// work in that mode.
func (i *Invalidations) Track(o rueidis.ClientOption) rueidis.ClientOption {
	own := o.OnInvalidations
	o.ClientTrackingOptions = []string{"OPTOUT"}
	o.OnInvalidations = func(keys []rueidis.RedisMessage) {
		if own != nil {
			own(keys)
		}
		i.pass(keys)
	}
	return o
}

// Tell has f told of the keys with that prefix, which it is told without. When a connection is
// lost, or the server has dropped all keys, f forgets all. Told again of the same f, it
// is told twice.
func (i *Invalidations) Tell(prefix string, f Forgetter) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tiers = append(slices.Clip(i.tiers), told{prefix, f})
	f.ForgetAll() // what was read before
}

// pass is told of keys, or of all by nil, while the client reads nothing else.
func (i *Invalidations) pass(keys []rueidis.RedisMessage) {
	i.mu.RLock()
	tiers := i.tiers
	i.mu.RUnlock()
	for _, t := range tiers {
		if keys == nil {
			t.tier.ForgetAll()
		}
		for _, message := range keys {
			key, err := message.ToString()
			if err != nil {
				t.tier.ForgetAll() // not known to happen
			} else if key, ours := strings.CutPrefix(key, t.prefix); ours {
				t.tier.Forget(key)
			}
		}
	}
}
