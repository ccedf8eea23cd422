package session

import (
	"hash/crc32"
	"sync/atomic"
	"time"
)

// listing bounds how long a request that reads its session waits for the user's index. While one waits, and for
// listingRest after it has begun in vain, no other does for this user.
const (
	listing     = 2 * time.Second
	listingRest = 10 * time.Second
)

// listings remembers whose index was last written before a read, or tried to be, and when. Users who share a place
// do not keep each other from it: it remembers the first of them until the rest is over.
type listings struct {
	start time.Time // for a clock that is never set
	begun *[256]atomic.Uint64
}

func newListings() listings { return listings{time.Now(), new([256]atomic.Uint64)} }

// of returns the place of user, and what it has if a turn begins now.
func (l *listings) of(user string) (place *atomic.Uint64, entry uint64) {
	h := crc32.ChecksumIEEE([]byte(user))
	return &l.begun[h%uint32(len(l.begun))], uint64(h)<<32 | uint64(uint32(1+time.Since(l.start).Milliseconds()))
}

// begin reports whether it is the caller's turn.
func (l *listings) begin(user string) bool {
	place, now := l.of(user)
	was := place.Load()
	switch rests := was != 0 && uint32(now)-uint32(was) < uint32(listingRest.Milliseconds()); {
	case rests && was>>32 == now>>32:
		return false
	case rests:
		return true
	}
	return place.CompareAndSwap(was, now)
}

// forget lets the next caller begin.
func (l *listings) forget(user string) {
	place, now := l.of(user)
	if was := place.Load(); was>>32 == now>>32 {
		place.CompareAndSwap(was, 0)
	}
}
