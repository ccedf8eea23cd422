package simulation

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// resolution is that of Couchbase's and DynamoDB's expiries.
	resolution = time.Second
	// A leg is the way to the store or back.
	shortestLeg = 500 * time.Microsecond
	longestLeg  = 2500 * time.Microsecond
)

// backend is the store that the nodes share. Like DynamoDB it keeps what is dead,
// and leaves it to its readers to notice.
type backend struct {
	limits limits

	mu      sync.Mutex // guards all below
	legs    *rand.Rand
	records []record
	counts  counts
}

// limits are those of all records.
type limits struct{ idle, life time.Duration }

// record is what is stored under a key, and what has been promised of it.
type record struct {
	driver.Life
	promised driver.Instant
}

type counts struct {
	reads, touches, conflicts int
	signIns                   int           // records created because there was none alive
	broken                    int           // reads that found a record dead before its promise ran out
	early, late               time.Duration // the worst
}

func now() driver.Instant { return driver.Floor(time.Now()) }

// travel is one leg. The caller must not hold b.mu.
func (b *backend) travel() {
	b.mu.Lock()
	d := shortestLeg + time.Duration(b.legs.Int64N(int64(longestLeg-shortestLeg)))
	b.mu.Unlock()
	time.Sleep(d)
}

// alive judges by expiry and cap.
func (b *backend) alive(l driver.Life, at driver.Instant) bool {
	return l.ExpiresAt != 0 && l.Alive(at) && at < l.CreatedAt.Add(b.limits.life)
}

// deadline is what an access at an instant promises.
func (b *backend) deadline(created, at driver.Instant) driver.Instant {
	return min(at.Add(b.limits.idle), created.Add(b.limits.life))
}

// read returns what is stored under key i. It is called when the request reaches the
// store, and returns when the answer has reached the node.
func (b *backend) read(i int) driver.Life {
	b.mu.Lock()
	b.counts.reads++
	l := b.records[i].Life
	b.mu.Unlock()
	b.travel()
	b.accessed(i, l, now())
	return l
}

// accessed notes the promise that an access to life l, read from key i, makes.
func (b *backend) accessed(i int, l driver.Life, at driver.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &b.records[i]
	switch {
	case l.CreatedAt != r.CreatedAt:
	case b.alive(l, at):
		r.promised = max(r.promised, b.deadline(l.CreatedAt, at))
	case at < r.promised:
		b.counts.broken++
	}
}

// touch is the round trip of a write that f decides on.
func (b *backend) touch(i int, f func(r *record) error) error {
	b.travel()
	b.mu.Lock()
	b.counts.touches++
	err := f(&b.records[i])
	if err != nil {
		b.counts.conflicts++
	}
	b.mu.Unlock()
	b.travel()
	return err
}

// insert is the round trip of a conditional insert.
func (b *backend) insert(i int, life driver.Life, at driver.Instant) error {
	b.travel()
	defer b.travel()
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &b.records[i]
	if b.alive(r.Life, at) {
		return &driver.ConflictError{Found: driver.Meta{Life: r.Life}}
	}
	b.bury(r)
	*r = record{life, b.deadline(life.CreatedAt, life.CreatedAt)}
	b.counts.signIns++
	return nil
}

// bury compares the end of a record's life with its last promise.
func (b *backend) bury(r *record) {
	if r.ExpiresAt == 0 {
		return
	}
	end := min(r.ExpiresAt, r.CreatedAt.Add(b.limits.life))
	b.counts.early = max(b.counts.early, r.promised.Sub(end))
	b.counts.late = max(b.counts.late, end.Sub(r.promised))
}

func key(i int) string { return strconv.Itoa(i) }

// indexOf is key's inverse.
func indexOf(key string) int {
	i, err := strconv.Atoi(key)
	if err != nil {
		panic(err) // keys come from this package alone
	}
	return i
}
