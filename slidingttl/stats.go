package slidingttl

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

// Stats counts what a Store has done since New, and has its present state.
//
// The counters are not read at one instant: they may differ by the calls under way.
type Stats struct {
	// Reads; a call for many counts each key. A miss counts as a death only if the dead record
	// is still stored or remembered.
	Hits      uint64 // found a live record
	Misses    uint64 // found none, or a dead one
	DiedIdle  uint64 // of the misses: it died of idleness
	DiedOfAge uint64 // of the misses: it died at its cap

	// Accesses that found a touch due, and their results. Each due or retried touch ends as one
	// of Touched to Shed, or is Pending or under way.
	Due        uint64
	Touched    uint64 // the touch wrote
	Shared     uint64 // another touch of the key was enough
	TouchLost  uint64 // the record was gone or replaced: no failure
	Deferred   uint64 // another client has locked the record: no failure
	TouchFails uint64 // the touch failed
	Shed       uint64 // it was given up: too many waited, or its record died first
	Retried    uint64 // of TouchFails: it waits for another try
	Adopted    uint64 // of Touched: the record got its created_at

	// Expiries beyond a tightened policy.
	Lowered uint64 // touches and writes of a value that lowered one
	Damped  uint64 // reads that did not, because this process had lowered it shortly before
	Behind  uint64 // accesses that did not, because created_at of some records shows this process's clock to be behind

	// Dead records that an Insert or Upsert of this store replaced by a new life, by the policy
	// of the write. An archive lacks those that were not harvested before. Writes of other
	// programs, writes whose answer was lost, and SQL's, which replace unseen, are not counted.
	ReplacedIdle  uint64 // it had died of idleness
	ReplacedOfAge uint64 // it had died at its cap

	// The cost of pressure.
	OverBudget uint64        // seconds in which touches exceeded the budget, because some would have come too late
	QueueFull  uint64        // background touches that a read waited for because the queue was full
	Saturated  time.Duration // how long touches waited only for Options.Workers
	Broken     time.Duration // the promised life that failed and shed touches cost, at most
	HookPanics uint64        // panics recovered from hooks, PolicyOf, PolicyFor, and what a driver calls in a touch

	// HooksSkipped counts calls of Observer.Touch and OnTouchError that were left out, because 65,536
	// waited for others to return.
	HooksSkipped uint64

	// The state now.
	Pending     int  // touches that wait
	BreakerOpen bool // the store fails touches: they wait, and few are tried, see Options.TouchTimeout
	Late        bool // reads do not wait for their touches, which are late, or the breaker is open
}

// Stats returns what the store has done so far. It may be called after Close.
func (s *Store[T]) Stats() Stats {
	n := s.stats.Sum
	now, waiting, saturated := s.touches.Now()
	slides := n(tally.Slides)
	touch := func(o TouchOutcome) uint64 { return n(tally.Outcomes + tally.Counter(o)) }
	return Stats{
		Hits: n(tally.Hits) + slides, Misses: n(tally.Misses), DiedIdle: n(tally.DiedIdle), DiedOfAge: n(tally.DiedOfAge),
		ReplacedIdle: n(tally.ReplacedIdle), ReplacedOfAge: n(tally.ReplacedOfAge),
		Due: n(tally.Due) + slides, Touched: touch(TouchWritten) + slides, Adopted: n(tally.Adopted), Lowered: n(tally.Lowered),
		Damped: n(tally.Damped), Behind: n(tally.Behind), Shared: touch(TouchShared), TouchLost: touch(TouchLost), Deferred: touch(TouchDeferred),
		TouchFails: touch(TouchFailed), Retried: n(tally.Retried), Shed: touch(TouchShed),
		OverBudget: n(tally.OverBudget), QueueFull: n(tally.QueueFull), Saturated: saturated,
		Broken: time.Duration(n(tally.Broken)) * time.Millisecond, HookPanics: n(tally.Panics), HooksSkipped: n(tally.HooksSkipped),
		Pending: waiting, BreakerOpen: now.Failing, Late: now.Late || now.Failing,
	}
}
