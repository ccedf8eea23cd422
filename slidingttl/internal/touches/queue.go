package touches

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// readAfter is the wait after which a touch reads its record again first, because another process
// may have touched it.
const readAfter = time.Second

const (
	shortestRest = time.Second // after the first failure
	longestRest  = 30 * time.Second
	leastRest    = 50 * time.Millisecond // for a record that is about to die, and if the store recovers
)

// While the store fails, or as many touches run as may, tries show whether others can be made.
const (
	mostTries   = 8           // at once
	mostTryWait = time.Second // for the next one if none is under way
	mostTry     = time.Minute // how long one takes, even if Timeout is longer
)

// enqueue puts the waiting touch n into the queue, as queued, resting or passed. If the queue is full, it
// sheds the touch farthest from death, perhaps n itself.
func (t *Touches) enqueue(n *touch, s state) {
	if t.farthest.Len() >= t.Queue {
		shed := t.farthest.first()
		if shed == nil || shed.far() >= n.far() {
			shed = n
		}
		t.end(shed, Outcome{Err: ErrShed, result: Shed})
		if shed == n {
			return
		}
	}
	n.state, n.waited = s, true
	t.farthest.push(n, n.far())
	t.oldest.push(n, int64(n.number))
	switch s {
	case queued:
		t.ready.push(n, n.turn())
		n.recent = t.recent.PushFront(n)
	case passed:
		t.passed.push(n, -int64(n.dies()))
	default:
		t.resting.push(n, int64(n.wakes))
	}
	t.startPacing()
}

// turn orders queued touches: the one due first goes first.
func (n *touch) turn() int64 { return int64(n.due()) }

// far orders touches to be shed: those that have been passed first, and then the one farthest from death.
func (n *touch) far() int64 {
	if n.state == passed {
		return math.MinInt64
	}
	dies := n.dies()
	if before := n.Before.ExpiresAt; before != 0 { // with this touch created_at would be lost
		dies = min(dies, before)
	}
	return -int64(dies)
}

// due is when n is late: its record has died, or lives longer than promised, or was not adopted.
func (n *touch) due() driver.Instant { return min(n.dies(), n.by) }

// unqueue takes n out of the queue, if it is there. It then waits.
func (t *Touches) unqueue(n *touch) {
	switch n.state {
	case queued:
		t.ready.remove(n)
		t.recent.Remove(n.recent)
	case resting:
		t.resting.remove(n)
	case rested:
		t.rested.remove(n)
	case passed:
		t.passed.remove(n)
	default:
		return
	}
	t.farthest.remove(n)
	t.oldest.remove(n)
	n.state = waiting
}

// reorder puts n in its place after its record's expiry has changed.
func (t *Touches) reorder(n *touch) {
	switch n.state {
	case queued:
		t.ready.fix(n, n.turn())
	case rested:
		t.rested.fix(n, n.turn())
	case passed:
		t.passed.fix(n, -int64(n.dies()))
	case resting:
	default:
		return
	}
	t.farthest.fix(n, n.far())
}

// rest delays the failed touch n, by at most half of the time that its record has left.
func (t *Touches) rest(n *touch) {
	d := min(shortestRest<<min(n.fails-1, 5), longestRest)
	if left := n.left(t.now()); left > 0 { // else there is nothing left to lose
		d = max(min(d, left/2), leastRest)
	}
	if t.closing {
		d = 0
	}
	n.failed, n.wakes = time.Now(), t.restClock()+d
	t.enqueue(n, resting)
}

// endRests moves the touches whose rest has ended to those that wait for a turn.
func (t *Touches) endRests() {
	for range paceChunk {
		n := t.resting.first()
		if n == nil || n.wakes > t.restClock() {
			return
		}
		if rest := time.Since(n.failed); rest < leastRest && !t.inHurry() { // all rests have ended since
			n.wakes = t.restClock() + leastRest - rest
			t.resting.fix(n, int64(n.wakes))
			continue
		}
		t.resting.remove(n)
		n.state = rested
		t.rested.push(n, n.turn())
	}
}

// callBack gives those that have been passed their turns again whose records are not dead after all: they have been read
// again since, or the clock was ahead.
func (t *Touches) callBack() {
	for range paceChunk {
		n := t.passed.first()
		if n == nil || t.isTooLate(n, t.now()) {
			return
		}
		t.unqueue(n)
		if n.fails > 0 {
			n.wakes = t.restClock()
			t.enqueue(n, resting)
		} else {
			t.enqueue(n, queued)
		}
	}
}

// isTooLate reports whether n's record is dead, or will be before a touch that begins now has landed, while others wait
// for a worker: in its turn another one can be in time, where otherwise each would come just too late.
func (t *Touches) isTooLate(n *touch, now driver.Instant) bool {
	if takes := t.pressure.takes; time.Since(t.limits.crowded) <= takes {
		now = now.Add(takes)
	}
	return n.dies() <= now
}

// restClock is the clock by which touches rest.
func (t *Touches) restClock() time.Duration { return time.Since(t.created) + t.skipped }

// wakeAll ends all rests.
func (t *Touches) wakeAll() { t.skipped += longestRest }

// wakesAfter is how many landings after a recovery wake one that rests: one alone may fail by chance. If one lands, all
// rests end. More would give a shard that fails the turns of the others.
const wakesAfter = 3

// wakeOne ends one rest, after a touch has landed that had not failed before.
func (t *Touches) wakeOne() {
	t.pressure.wakes--
	if n := t.resting.first(); n != nil {
		n.wakes, n.wakesAll = min(n.wakes, t.restClock()), true
		t.resting.fix(n, int64(n.wakes))
	}
}

// inHurry reports whether Close or Flush waits for pending touches.
func (t *Touches) inHurry() bool { return t.closing || len(t.flushes) > 0 }

// isAwaited reports whether Close or Flush waits for n.
func (t *Touches) isAwaited(n *touch) bool {
	return t.closing || slices.ContainsFunc(t.flushes, func(f *flush) bool { return n.number <= f.last })
}

// dispatch starts the touches whose turn has come. Every change that may bring a turn calls it.
func (t *Touches) dispatch() {
	t.limits.note(false)
	t.endRests()
	t.callBack()
	for looked := 0; !t.halted; {
		hurry := t.inHurry()
		full := t.limits.isFull()
		stuck := !t.limits.hasWorker()
		try := full || stuck || t.pressure.Failing
		n, rest := t.ready.first(), time.Duration(0)
		another := t.pressure.goesToAnother(try, t.limits.share())
		dead := t.passed.first()
		if another && (n != nil || dead == nil && t.rested.Len() > 0) {
			n = t.another(try)
		} else if r := t.rested.first(); r != nil {
			if n == nil || !t.pressure.Failing && t.limits.mayRetry() && t.goesBefore(r, n) {
				n = r
			}
		} else if r := t.resting.first(); r != nil && n == nil {
			n, rest = r, max(0, r.wakes-t.restClock())
		}
		if dead != nil && (n == nil || rest > 0) {
			n, rest = dead, 0
		}
		if n == nil {
			return
		}
		if now := t.now(); (!hurry || t.closing) && rest <= 0 && n.state != passed && (!hurry && n.due() <= now || t.isTooLate(n, now)) {
			if looked++; looked > paceChunk {
				t.wakeIn(0)
				return
			}
			if !t.isTooLate(n, now) {
				n.by = n.promised(now)
				t.reorder(n)
				continue
			}
			t.unqueue(n) // it has nothing to lose: those that have go first
			t.enqueue(n, passed)
			continue
		}
		wait := time.Duration(0)
		switch {
		case t.pressure.Failing:
			if !hurry || t.limits.running > 0 {
				wait = t.tryWait(false)
			}
		case rest > 0:
			wait = rest
		case full || stuck:
			wait = t.tryWait(stuck)
			if t.limits.note(wait > 0); wait > 0 {
				t.limits.crowded = time.Now()
			}
		}
		if wait <= 0 && !t.pressure.Failing && !t.isAwaited(n) {
			wait = t.budgetWait(n)
			if o := t.oldest.first(); wait > 0 && o != nil && t.isAwaited(o) {
				n, wait = o, 0
			}
		}
		if wait > 0 {
			if r := t.resting.first(); r != nil {
				wait = min(wait, max(0, r.wakes-t.restClock()))
			}
			if r := t.rested.first(); r != nil && t.budget != nil {
				if left := t.leeway(r.due(), t.now()); left > 0 {
					wait = min(wait, left)
				}
			}
			t.wakeIn(wait)
			return
		}
		n.readFirst = n.readFirst || time.Since(n.came) >= readAfter
		if t.unqueue(n); n.of.running != nil {
			continue
		}
		if n.try = try; try {
			t.pressure.tried, t.pressure.another = time.Now(), another
		}
		if !another && (try || t.pressure.nearRefused()) {
			n.near, t.pressure.nears = true, t.pressure.nears+1
		}
		t.start(n)
	}
}

// blameless reports whether n has not failed since the store recovered.
func (t *Touches) blameless(n *touch) bool {
	return n.fails == 0 || n.wakesAll || n.landings < t.pressure.back
}

// goesBefore reports whether r, which has failed and rested, goes before the first of those that have not failed.
func (t *Touches) goesBefore(r, first *touch) bool {
	share := t.limits.firsts >= retryShare-1
	if t.budget == nil {
		return share || t.blameless(r)
	}
	now := t.now() // tokens are short, and workers only if there is but one
	share = share || t.limits.workers > 1 || t.leeway(r.dies(), now) == 0
	return r.turn() < first.turn() && (t.blameless(r) || share && t.leeway(r.due(), now) == 0)
}

// tryWait is the time until the next try may begin: none after one that landed. Tries end after a time,
// so that their distance bounds their number. It grows where a driver ignores that time. stuck: no worker is
// free, and only if none has become free for so long do tries begin without one.
func (t *Touches) tryWait(stuck bool) time.Duration {
	every := min(t.Timeout, mostTry) / mostTries
	if tries := t.limits.tries; tries == 0 {
		every = min(every, mostTryWait)
	} else {
		every = min(every<<min((tries-1)/mostTries, 16), longestRest)
	}
	wait := every - time.Since(t.pressure.tried)
	if stuck {
		wait = max(wait, mostTry-time.Since(t.limits.moved))
	}
	return wait
}

// another returns the queued touch with the last access, or for some tries any, also of those that have failed. Every
// other try is such a one, and what begins after it has landed while those nearest to death fail: all of them may be of a
// shard that hangs, or gone.
func (t *Touches) another(try bool) *touch {
	queued := t.ready.Len()
	if queued > 0 && !(try && rand.IntN(4) == 0) {
		return t.recent.Front().Value.(*touch)
	}
	i := rand.IntN(queued + t.rested.Len())
	if i < queued {
		return t.ready.all[i].of
	}
	return t.rested.all[i-queued].of
}

// wakeIn calls dispatch in d.
func (t *Touches) wakeIn(d time.Duration) {
	if t.wake != nil {
		t.wake.Reset(d)
		return
	}
	t.wake = time.AfterFunc(d, func() {
		t.lock()
		t.dispatch()
		t.unlock()
	})
}

// turns is a heap of touches, the one with the least key first.
type turns struct {
	place int // of touch.places
	all   []turn
}

type turn struct {
	key int64
	of  *touch
}

func (h *turns) first() *touch {
	if len(h.all) == 0 {
		return nil
	}
	return h.all[0].of
}

func (h *turns) push(n *touch, key int64) { heap.Push(h, turn{key, n}) }

func (h *turns) remove(n *touch) { heap.Remove(h, n.places[h.place]) }

func (h *turns) fix(n *touch, key int64) {
	i := n.places[h.place]
	h.all[i].key = key
	heap.Fix(h, i)
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h *turns) Len() int           { return len(h.all) }
func (h *turns) Less(i, j int) bool { return h.all[i].key < h.all[j].key }

func (h *turns) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	h.all[i].of.places[h.place], h.all[j].of.places[h.place] = i, j
}

func (h *turns) Push(e any) {
	e.(turn).of.places[h.place] = len(h.all)
	h.all = append(h.all, e.(turn))
}

func (h *turns) Pop() any {
	last := len(h.all) - 1
	e := h.all[last]
	h.all[last] = turn{}
	h.all = h.all[:last]
	return e
}
