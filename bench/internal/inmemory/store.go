package inmemory

import "time"

// value is what all contestants hold.
type value [64]byte

// store is a contestant with the idle timeout it was opened with.
type store interface {
	// hit reads key and slides its expiry.
	hit(key string) (value, bool)
	// put writes a new record that expires after the idle timeout.
	put(key string, v value) error
	close()
}

// settler is a store whose writes take effect later.
type settler interface {
	// settle returns when what was put can be read.
	settle()
}

// mortal is a store whose records can be given an end of their own, and that
// removes by itself what has expired.
type mortal interface {
	store
	// putUntil writes a new record that expires at an instant.
	putUntil(key string, v value, at time.Time) error
	// held is the number of records in memory, dead ones included.
	held() int
}

// field is a contestant's name and how it is opened.
type field struct {
	name string
	open func(idle time.Duration) (store, error)
}

// The names that figures are made of.
const (
	slack10    = "slidingttl, slack 10 %"
	observed   = "slidingttl, slack 10 %, observed"
	exact      = "slidingttl, exact"
	otterPlain = "otter"
	otterTick  = "otter, coarse clock"
	otterBorn  = "otter, with creation time"
	floorPlain = "floor: sharded map"
	floorDue   = "floor: due only, coarse clock"
	ttlcached  = "ttlcache"
	lruTimed   = "golang-lru expirable"
	goCached   = "go-cache get+set"
)

// all are the contestants. The bare maps never remove anything: they are no
// products, but show what there is to gain.
var all = []field{
	{slack10, openOwn(10, nil)},
	{observed, openOwn(10, watched())},
	{exact, openOwn(0, nil)},
	{otterPlain, openOtter(false)},
	{otterTick, openOtter(true)},
	{otterBorn, openOtterBorn},
	{ttlcached, openTTLCache},
	{"scs memstore find+commit", openSCS},
	{goCached, openGoCache},
	{"ristretto get+set", openRistretto},
	{lruTimed, openLRU},
	{"sync.Map", openSyncMap},
	{floorPlain, openFloor},
	{floorDue, openFloorDue},
}
