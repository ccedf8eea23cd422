package hot

import (
	"hash/maphash"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// keyGroups is the number of hash groups for which the last forget is remembered.
const keyGroups = 1 << 10

// tier holds records, and the reads of the store that are under way.
//
// otter's own loading does not fit: a load runs on the first caller's context and fails for all
// waiting callers when that ends, and batches and touches are no loads.
type tier[T any] struct {
	staleness time.Duration
	absence   time.Duration
	began     time.Time
	held      *otter.Cache[string, *record[T]]
	seed      maphash.Seed

	// mu makes checking for a forget and holding a result one step, so that no result is held after
	// a write has forgotten its key. It guards the fields below, and changes to held.
	mu      sync.Mutex
	clock   uint64            // number of forgets so far
	forgot  [keyGroups]uint64 // by hash of the key: clock at the last forget
	flights map[string]*flight[T]
}

// record is a held record or a held absence. It is immutable.
type record[T any] struct {
	driver.Entry[T]
	at     time.Duration // when it was read, since the tier began
	absent bool
}

// mark is a moment, taken before a call of the store.
type mark struct {
	clock uint64
	at    time.Duration // since the tier began
}

// whole is the cache's total weight if bytes are limited. A heavier record is not held.
const whole = math.MaxUint32 / 2

func newTier[T any](b Bounds, sizeOf func(T) int) (*tier[T], error) {
	o := &otter.Options[string, *record[T]]{MaximumSize: b.Records}
	if b.Bytes > 0 {
		o.MaximumSize, o.MaximumWeight = 0, whole
		o.Weigher = func(key string, r *record[T]) uint32 {
			size := len(key)
			if !r.absent {
				size += sizeOf(r.Value)
			}
			// otter has one limit: use the larger of both shares.
			share := max(1/float64(b.Records), float64(size)/float64(b.Bytes))
			return uint32(math.Ceil(min(share, 2) * whole))
		}
	}
	held, err := otter.New(o)
	if err != nil {
		return nil, err
	}
	return &tier[T]{
		staleness: b.Staleness,
		absence:   b.Absence,
		began:     time.Now(),
		held:      held,
		seed:      maphash.MakeSeed(),
		flights:   make(map[string]*flight[T]),
	}, nil
}

// get returns the held record of key; nil if there is none or it is too old.
func (t *tier[T]) get(key string) *record[T] {
	r, ok := t.held.GetIfPresent(key)
	if !ok {
		return nil
	}
	most := t.staleness
	if r.absent {
		most = t.absence
	}
	if time.Since(t.began)-r.at >= most {
		return nil
	}
	return r
}

func (t *tier[T]) mark() mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.markLocked()
}

func (t *tier[T]) markLocked() mark { return mark{clock: t.clock, at: time.Since(t.began)} }

// read holds the result of a read of key that began at since, unless the key was forgotten since,
// or the result of a later read is held.
func (t *tier[T]) read(key string, e driver.Entry[T], since mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readLocked(key, &record[T]{Entry: e, at: since.at}, since.clock)
}

func (t *tier[T]) readLocked(key string, r *record[T], clock uint64) {
	if *t.forgotten(key) > clock {
		return
	}
	if was, ok := t.held.GetEntryQuietly(key); ok && was.Value.at > r.at {
		return
	}
	t.held.Set(strings.Clone(key), r) // the key may be part of a long string
}

// forget drops key's record. Reads under way are not held, and later reads do not join them.
func (t *tier[T]) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(key)
}

func (t *tier[T]) forgetLocked(key string) {
	t.clock++
	*t.forgotten(key) = t.clock
	delete(t.flights, key)
	t.held.Invalidate(key)
}

// absent records that a read of key, begun at since, found nothing. Without Bounds.Absence it only
// drops the key's record.
func (t *tier[T]) absent(key string, since mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.absence == 0 {
		t.held.Invalidate(key)
		return
	}
	t.readLocked(key, &record[T]{at: since.at, absent: true}, since.clock)
}

func (t *tier[T]) forgotten(key string) *uint64 {
	return &t.forgot[maphash.String(t.seed, key)%keyGroups]
}

func (t *tier[T]) forgetAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock++
	for i := range t.forgot {
		t.forgot[i] = t.clock
	}
	clear(t.flights)
	t.held.InvalidateAll()
}

// wrote holds the result of a write that began at since. If the key was forgotten since, it only
// forgets the key again.
func (t *tier[T]) wrote(key string, e driver.Entry[T], since mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wroteLocked(key, e, since)
}

func (t *tier[T]) wroteLocked(key string, e driver.Entry[T], since mark) {
	alone := *t.forgotten(key) <= since.clock
	t.forgetLocked(key)
	if alone {
		t.readLocked(key, &record[T]{Entry: e, at: since.at}, t.clock)
	}
}

// touched sets the held record's meta to is, after a touch of was that began at since. The value is
// as old as before. If another record or none is held, the key is forgotten.
func (t *tier[T]) touched(key string, was, is driver.Meta, since mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if held, ok := t.held.GetEntryQuietly(key); ok && !held.Value.absent && held.Value.Meta == was {
		t.wroteLocked(key, driver.Entry[T]{Value: held.Value.Value, Meta: is}, mark{since.clock, held.Value.at})
		return
	}
	t.forgetLocked(key)
}
