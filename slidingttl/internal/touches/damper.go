package touches

import (
	"cmp"
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

// damper knows which keys' expiries this process lowers now, and remembers when it did so last. Without that two
// processes with different policies would rewrite a record on every read in turn. The memory's size is fixed: a key
// has a set of slots, with others, of which the one lowered first is forgotten, and may be lowered too soon.
type damper struct {
	seed maphash.Seed

	mu       sync.Mutex               // guards blocks and underWay
	blocks   []*[damperBlock]lowering // by hash of the key; each allocated at its first use
	underWay map[string]chan struct{} // by key, while a write is to lower its expiry; then closed
	many     atomic.Int64             // len(underWay)
	last     atomic.Uint64            // the latest lowering.clock
}

// lowering is when a key's expiry was lowered last, and when before that. If the last write fails,
// the time before counts again, because another policy's window may be longer.
type lowering struct {
	hash       uint64
	at, before driver.Instant
	clock      uint64 // the memo's after the last write that lowered it, or a key that had the slot before
}

const (
	leastLowered = 1 << 16 // keys remembered
	damperBlock  = 1 << 8  // slots, of 32 bytes
	damperSet    = 16      // slots that a key may have
)

// newDamper returns one that remembers so many keys, a power of two, or leastLowered: it has twice as many slots.
func newDamper(seed maphash.Seed, keys int) *damper {
	return &damper{seed: seed, blocks: make([]*[damperBlock]lowering, 2*max(leastLowered, keys)/damperBlock)}
}

// mostAhead is how far ahead the last time may lie: else the clock was set back.
const mostAhead = time.Minute

func (d *damper) set(key string) (set []lowering, hash uint64) {
	hash = maphash.String(d.seed, key)
	block := &d.blocks[hash/damperBlock%uint64(len(d.blocks))]
	if *block == nil {
		*block = new([damperBlock]lowering)
	}
	return (*block)[hash%damperBlock/damperSet*damperSet:][:damperSet], hash
}

// slot returns key's slot, or if its lowering is not known the one of its set that was lowered first.
func (d *damper) slot(key string) (l *lowering, hash uint64, known bool) {
	set, hash := d.set(key)
	l = &set[0]
	for i := range set {
		if s := &set[i]; s.hash == hash && s.at != 0 {
			return s, hash, true
		} else if s.at < l.at {
			l = s
		}
	}
	return l, hash, false
}

// claim claims the lowering of key's expiry at now, until end. Zero: it is claimed, or the last time is less than
// window ago. With ask it only says whether a claim would succeed.
func (d *damper) claim(key string, now, window driver.Instant, ask bool) (at driver.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, hash, known := d.slot(key)
	now = cmp.Or(now, 1) // zero is no claim
	if d.underWay[key] != nil || known && now-l.at < window && l.at.Sub(now) <= mostAhead {
		return 0
	}
	if ask {
		return now
	}
	if known {
		l.at, l.before = now, l.at
	} else {
		*l = lowering{hash: hash, at: now, clock: l.clock}
	}
	if d.underWay == nil {
		d.underWay = make(map[string]chan struct{})
	}
	d.underWay[strings.Clone(key)] = make(chan struct{}) // key may be part of a long string
	d.many.Add(1)
	return now
}

// over is closed.
var over = make(chan struct{})

func init() { close(over) }

// ended returns a channel that is closed when the write that is to lower key's expiry, or has done so after the memo's
// clock was since, has ended; nil: there is none.
func (d *damper) ended(key string, since uint64) <-chan struct{} {
	if d.many.Load() == 0 && d.last.Load() <= since {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.underWay[key]; c != nil {
		return c
	}
	set, _ := d.set(key) // key's own slot may be another's by now
	if slices.ContainsFunc(set, func(l lowering) bool { return l.clock > since }) {
		return over
	}
	return nil
}

// end ends the claim of at. The last time is now that of end, with the memo's clock after it, or the one before the
// claim if end is zero.
func (d *damper) end(key string, at, end driver.Instant, clock uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, _, known := d.slot(key)
	if known && l.at == at {
		l.at = cmp.Or(end, l.before)
	}
	if end != 0 {
		l.clock = max(l.clock, clock)
		d.last.Store(max(d.last.Load(), clock))
	}
	close(d.underWay[key])
	delete(d.underWay, key)
	d.many.Add(-1)
}

// behindFor is for how long a process lowers nothing after it has seen that its clock is behind.
const behindFor = time.Minute

// mostBehind bounds by how much it may be: what lies further ahead is a wrong created_at.
const mostBehind = 365 * 24 * time.Hour

// Seen looks at a record's created_at, read at now. Where that lies further ahead than the clocks of
// two processes may be apart, this process's clock is behind, and what it takes for too long a life
// may be right.
func (t *Touches) Seen(created, now driver.Instant) {
	if ahead := created.Sub(now); ahead > t.MaxSkew && ahead < mostBehind {
		t.behind.Store(&behind{by: ahead, at: now})
	}
}

type behind struct {
	by time.Duration
	at driver.Instant
}

// Behind is by how much this process's clock is behind, as records that were read in the last minute
// show. Zero: they do not.
func (t *Touches) Behind() time.Duration {
	if b := t.behind.Load(); b != nil && t.now().Sub(b.at).Abs() < behindFor {
		return b.by
	}
	return 0
}

// mayLower reports whether l's expiry lies beyond what r allows, and may be lowered now.
func (t *Touches) mayLower(r *rules.Rules, l driver.Life, now driver.Instant) bool {
	_, beyond := r.Lowered(l, now)
	if beyond {
		t.Seen(l.CreatedAt, now)
	}
	if beyond && t.Behind() != 0 {
		t.Tally.Add(tally.Behind)
		return false
	}
	return beyond
}

// Lowers reports whether a write is to lower key's expiry that was under way at some time since the memo's clock was
// since: the expiry that was read since, whatever it is, may not last.
func (t *Touches) Lowers(key string, since uint64) bool { return t.lowering.ended(key, since) != nil }

// lowers reports whether l's expiry must be lowered now.
func (t *Touches) lowers(r *rules.Rules, key string, l driver.Life, now driver.Instant) bool {
	beyond := t.mayLower(r, l, now)
	if beyond && t.lowering.claim(key, now, r.Window(), true) == 0 {
		t.Tally.Add(tally.Damped)
		return false
	}
	return beyond
}

// Lower claims the lowering of m's expiry, by a write at now.
//
// No other write lowers it until Lowered is called, which must not be forgotten. Zero means no claim: m is nil, within the
// policy, or was lowered recently.
func (t *Touches) Lower(r *rules.Rules, key string, m *driver.Meta, now driver.Instant) (claim driver.Instant) {
	if m == nil || !t.mayLower(r, m.Life, now) {
		return 0
	}
	return t.lowering.claim(key, now, r.Window(), false)
}

// Lowered ends a claim whose write ended with err. A zero claim does nothing.
//
// lowers says whether the write did lower the expiry. An ambiguous write counts as landed. The time
// to the next one counts from here, for the write may have taken effect just now. What it wrote, the memo has
// been told.
func (t *Touches) Lowered(key string, claim driver.Instant, lowers bool, err error) {
	if claim == 0 {
		return
	}
	var end driver.Instant
	var clock uint64
	if lowers && (err == nil || errors.Is(err, driver.ErrAmbiguous)) {
		_, end = t.instants()
		clock = t.Memo.lowered(key, err == nil)
	}
	t.lowering.end(key, claim, end, clock)
	if lowers && err == nil {
		t.Tally.Add(tally.Lowered)
	}
}
