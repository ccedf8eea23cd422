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

// listings remembers when a user's index was last written before a read, or tried to be. Some users share a place.
type listings struct {
	start time.Time // for a clock that is never set
	begun *[256]atomic.Int64
}

func newListings() listings {
	return listings{time.Now(), new([256]atomic.Int64)}
}

func (l *listings) of(user string) *atomic.Int64 {
	return &l.begun[crc32.ChecksumIEEE([]byte(user))%uint32(len(l.begun))]
}

// begin reports whether it is the caller's turn.
func (l *listings) begin(user string) bool {
	begun, now := l.of(user), int64(time.Since(l.start))+1
	was := begun.Load()
	return (was == 0 || now-was >= int64(listingRest)) && begun.CompareAndSwap(was, now)
}

// forget lets the next caller begin.
func (l *listings) forget(user string) { l.of(user).Store(0) }
