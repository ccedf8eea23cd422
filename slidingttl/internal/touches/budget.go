package touches

import (
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
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

// pace sets the rate, once a second; set is false if that was done less than a second ago.
// waiting returns the time that each waiting touch has left. The rate is the budget, or more
// (overBudget) if these need it.
func (b *budget) pace(now time.Time, waiting func() []time.Duration) (overBudget, set bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	passed := now.Sub(b.paced)
	if passed < budgetPace {
		return false, false
	}
	b.paced = now
	left := waiting()
	slices.Sort(left)
	need := b.touches
	for i, d := range left {
		need = max(need, float64(i+1)/max(d.Seconds(), budgetPace.Seconds()))
	}
	b.tokens.SetLimit(rate.Limit(need))
	weight := 1 - math.Exp(-float64(passed)/float64(backlogSmoothing))
	b.backlog += (float64(len(left))/b.touches - b.backlog) * weight
	return need > b.touches, true
}

// grown returns the growth of r's slack: all that the policy allows if the backlog would take a
// quarter of the idle grace, proportionally less for a smaller backlog.
func (b *budget) grown(r *policy.Rules) driver.Instant {
	if b == nil || r.Policy.MaxSlack <= r.Policy.Slack {
		return 0
	}
	b.mu.Lock()
	backlog := b.backlog
	if idle := time.Since(b.paced) - budgetPace; idle > 0 { // nothing waits
		backlog *= math.Exp(-float64(idle) / float64(backlogSmoothing))
	}
	b.mu.Unlock()
	return r.Grown(backlog / (r.Policy.IdleGrace.Seconds() / 4))
}
