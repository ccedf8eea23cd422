package touches

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

// budget limits a process's touches a second. It exceeds the limit only if waiting touches would
// come too late, as evenly as their deadlines allow. A nil budget has no limit.
type budget struct {
	touches float64 // a second
	tokens  *rate.Limiter

	mu      sync.Mutex // guards the rest
	paced   time.Time
	backlog float64 // waiting touches, in seconds of budget, smoothed
}

const (
	budgetPace       = time.Second // how often the rate is set
	backlogSmoothing = 10 * time.Second
)

func newBudget(touches float64) *budget {
	if touches == 0 {
		return nil
	}
	return &budget{touches: touches, tokens: rate.NewLimiter(rate.Limit(touches), max(1, int(min(touches/100, 1e6))))}
}

func (b *budget) take() bool { return b == nil || b.tokens.Allow() }

// overdraw spends one token even if there is none, up to those of the next second.
func (b *budget) overdraw() {
	if b == nil {
		return
	}
	if r := b.tokens.Reserve(); r.Delay() > budgetPace {
		r.Cancel()
	}
}

// next spends one token, or returns the time until there is one.
func (b *budget) next() time.Duration {
	if b == nil {
		return 0
	}
	r := b.tokens.Reserve()
	wait := r.Delay()
	if wait > 0 {
		r.Cancel()
	}
	return wait
}

// set sets the rate from how long the pending touches have left: the budget, or more (over) if
// these need it.
func (b *budget) set(now time.Time, left *timesLeft) (over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	need := max(b.touches, left.rate())
	b.tokens.SetLimit(rate.Limit(need))
	b.backlog = b.decayed(now)
	weight := 1 - math.Exp(-float64(budgetPace)/float64(backlogSmoothing))
	b.backlog += (float64(left.n)/b.touches - b.backlog) * weight
	b.paced = now
	return need > b.touches
}

// timesLeft counts times left, to within a 64th.
type timesLeft struct {
	n      int
	counts [34 * 64]int32 // by logarithm: 34 powers of two of a second
}

// add counts d, at least a second.
func (l *timesLeft) add(d time.Duration) {
	seconds := max(d, budgetPace).Seconds()
	l.n++
	l.counts[(math.Float64bits(seconds)-math.Float64bits(1))>>46]++
}

// rate is how many touches a second are enough for each to be in time.
func (l *timesLeft) rate() (most float64) {
	before := 0
	for i, n := range l.counts {
		before += int(n)
		most = max(most, float64(before)/math.Float64frombits(math.Float64bits(1)+uint64(i)<<46))
	}
	return most
}

// paceChunk is how many pending touches are looked at under one lock.
const paceChunk = 1 << 10

// startPacing makes pace run once a second while there is something to pace.
func (t *Touches) startPacing() {
	if t.budget != nil && t.pacer == nil {
		t.pacer = time.AfterFunc(budgetPace, t.pace)
	}
}

// pace sets the budget's rate. Touches that come or go meanwhile may be missed, or counted twice.
func (t *Touches) pace() {
	now := t.now()
	left := new(timesLeft)
	for i, more := 0, true; more; {
		t.lock()
		end := min(i+paceChunk, t.farthest.Len())
		for ; i < end; i++ {
			n := t.farthest.all[i].of
			if by := n.promised(now); by < n.by { // the clock may have been ahead
				n.by = min(n.by, by)
				t.reorder(n)
			}
			if n.due() > now && n.state != passed && t.blameless(n) && (n.state != resting || n.wakes <= t.restClock()) {
				left.add(t.leeway(n.due(), now))
			}
		}
		more = end < t.farthest.Len()
		t.unlock()
	}
	t.lock()
	defer t.unlock()
	over := t.budget.set(time.Now(), left) || t.overdrawn
	if t.pressure.OverBudget, t.overdrawn = over, false; over {
		t.Tally.Add(tally.OverBudget)
	}
	if t.pacer = nil; (t.pressure.OverBudget || t.farthest.Len() > 0) && !t.closing {
		t.startPacing()
	}
	t.dispatch()
}

// budgetWait is how long n must wait for the budget.
func (t *Touches) budgetWait(n *touch) time.Duration {
	wait, now := t.budget.next(), t.now()
	if n.dies() <= now {
		return wait // it has nothing to lose
	}
	leeway := t.leeway(n.due(), now)
	t.overdrawn = t.overdrawn || wait > 0 && leeway == 0
	return min(wait, leeway)
}

// leeway is how long a touch may wait, which takes up to Timeout, before it is too late.
func (t *Touches) leeway(due, now driver.Instant) time.Duration {
	return max(0, max(0, due.Sub(now))-t.Timeout)
}

// grown returns the growth of r's slack: all that the policy allows if the backlog would take a
// quarter of the idle grace, proportionally less for a smaller backlog.
func (b *budget) grown(r *rules.Rules) driver.Instant {
	if b == nil || r.Policy.MaxSlack <= r.Policy.Slack {
		return 0
	}
	b.mu.Lock()
	backlog := b.decayed(time.Now())
	b.mu.Unlock()
	return r.Grown(backlog / (r.Policy.IdleGrace.Seconds() / 4))
}

// decayed is backlog after the time, until now, in which nothing was pending.
func (b *budget) decayed(now time.Time) float64 {
	idle := max(0, now.Sub(b.paced)-budgetPace)
	return b.backlog * math.Exp(-float64(idle)/float64(backlogSmoothing))
}
