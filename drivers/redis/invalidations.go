package redis

import (
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/internal/hook"
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
// It uses the server's client tracking of all reads (CLIENT TRACKING ON OPTOUT): the server
// remembers each read key once per connection, up to its tracking-table-max-keys. This process's
// own writes are pushed as well. The zero value is ready for use. All methods are safe for
// concurrent use.
type Invalidations struct {
	mu    sync.RWMutex // guards tiers
	tiers []subscription
}

type subscription struct {
	prefix string
	tier   forgetter
}

type forgetter interface {
	Forget(key string) // the record held for key is stale
	ForgetAll()        // any held record may be stale
}

// Track returns o with tracking of all that the client reads. o must not have DisableCache set.
// DisableAutoPipelining is taken out: connections without pipelining pass no messages on. If
// o has OnInvalidations, that is called first; a panic in it, which no call could return, ends there. The client's own caching (DoCache) does not work in
// this mode.
func (i *Invalidations) Track(o rueidis.ClientOption) rueidis.ClientOption {
	own := o.OnInvalidations
	o.ClientTrackingOptions, o.DisableAutoPipelining = []string{"OPTOUT"}, false
	o.OnInvalidations = func(keys []rueidis.RedisMessage) {
		defer i.pass(keys)
		if own != nil {
			_ = hook.Recover(func() error {
				own(keys)
				return nil
			})
		}
	}
	return o
}

// Tell has f, such as a *hot.Driver, forget the keys with that prefix as messages arrive. f gets them
// without the prefix.
// If a connection is lost, or the server has dropped all keys, f forgets all. Calling Tell twice
// with the same f notifies it twice.
func (i *Invalidations) Tell(prefix string, f forgetter) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tiers = append(slices.Clip(i.tiers), subscription{prefix, f})
	f.ForgetAll() // records read before are not tracked
}

// pass notifies the tiers of keys; nil means all. The client reads nothing else until it returns.
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
