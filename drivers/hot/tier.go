package hot

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// keyGroups is how many groups of keys are told apart by when one was forgotten last.
const keyGroups = 1 << 10

// tier is what is held of a store, and what is on its way from there.
//
// otter's own loading would do but for two things: its loads run on the context of who came
// first, and fail for all who wait when that caller leaves; and a batch or a touch is no load.
type tier[T any] struct {
	staleness time.Duration
	absence   time.Duration
	began     time.Time
	held      *otter.Cache[string, *record[T]]
	seed      maphash.Seed

	// mu makes it one step to see that an answer may still be held and to hold it, so that none
	// slips in behind a write that has forgotten the key. It guards all below, and what changes held.
	mu      sync.Mutex
	clock   uint64            // counts what was forgotten
	forgot  [keyGroups]uint64 // by hash of the key: the clock when one was forgotten last
	flights map[string]*flight[T]
}

// record is a record that is held, or that there is none. It is not written to.
type record[T any] struct {
	driver.Entry[T]
	at     time.Duration // since the tier began: when it was read
	absent bool
}

// mark is a moment before a call of the store.
type mark struct {
	clock uint64
	at    time.Duration // since the tier began
}

// whole is the weight of all that may be held where bytes are counted. What is heavier is not.
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
			// otter has one bound: of both, the share that is larger.
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

// get returns what is held of key, nil if nothing is, or if that is too old.
func (t *tier[T]) get(key string) *record[T] {
	r, ok := t.held.GetIfPresent(key)
	if !ok {
		return nil
	}
	most := t.staleness
	if r.absent {
		most = t.absence
	}
	if time.Since(t.began) >= r.at+most {
		return nil
	}
	return r
}

// mark returns the moment that is now.
func (t *tier[T]) mark() mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.markLocked()
}

func (t *tier[T]) markLocked() mark { return mark{clock: t.clock, at: time.Since(t.began)} }

// read holds what a read of key that began at since found, unless the key was forgotten
// since, or a read that began later has been held.
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
	t.held.Set(key, r)
}

// forget drops what is held of key. Reads that are under way are not held, nor joined.
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

// absent drops what is held of key, of which a read that began at since found nothing, or
// holds that.
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

// wrote holds what a call that began at since has read and written, unless the key was
// forgotten since; then it is forgotten again.
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

// touched gives what is held of key the meta that a touch of the record was, begun at since,
// has left there. If it is another record, or none, the key is forgotten.
func (t *tier[T]) touched(key string, was, is driver.Meta, since mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if held, ok := t.held.GetEntryQuietly(key); ok && !held.Value.absent && held.Value.Meta == was {
		t.wroteLocked(key, driver.Entry[T]{Value: held.Value.Value, Meta: is}, since)
		return
	}
	t.forgetLocked(key)
}
