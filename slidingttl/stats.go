package slidingttl

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

// Stats counts what a Store has done since New. Read at one moment the counters
// need not agree with each other to the last call.
type Stats struct {
	Hits   uint64 // reads that found a live record, each key of a GetMulti counted
	Misses uint64 // reads that found none, or a dead one

	// Of the misses, those whose record is known to have died, because it is still
	// stored or remembered. The others were absent.
	DiedIdle  uint64 // of idleness
	DiedOfAge uint64 // at its cap

	// Each due access, and each retried one, ends in one of Touched, Shared,
	// TouchLost, Deferred, TouchFails and Shed, or is Pending or under way.
	Due        uint64 // accesses that found a touch due
	Touched    uint64 // touches that wrote
	Adopted    uint64 // of those, records given their created_at
	Lowered    uint64 // touches, and writes of a value, that brought an expiry down to a tighter policy
	Damped     uint64 // reads that left an expiry beyond a tighter policy alone, because this process had brought it down not long before
	Shared     uint64 // due accesses served by another's touch of the same key
	TouchLost  uint64 // touches whose record was gone or replaced: no failure
	Deferred   uint64 // touches put off because another client has locked the record: no failure
	TouchFails uint64 // touches that failed
	Retried    uint64 // touches that failed, were counted in TouchFails, and wait to be tried again
	Shed       uint64 // touches given up because too many waited, or because they waited too long
	OverBudget uint64 // seconds in which touches went faster than the budget, because records would have died
	QueueFull  uint64 // background touches that a read waited for because the queue was full

	Saturated time.Duration // how long touches waited for nothing but Options.Workers

	Broken     time.Duration // what failed and shed touches cost of the life that was promised, at most
	HookPanics uint64        // panics recovered from hooks, PolicyOf and PolicyFor

	Pending     int  // touches waiting in the queue now
	BreakerOpen bool // the store does not take touches now: they fail, and one at a time is tried
	Late        bool // reads do not wait for their touches now: those are late, or the breaker is open
}

// Stats returns what the store has done so far. It may be called after Close.
func (s *Store[T]) Stats() Stats {
	n := s.stats.Sum
	now, waiting, saturated := s.touches.Now()
	touch := func(o TouchOutcome) uint64 { return n(tally.Outcomes + tally.Counter(o)) }
	return Stats{
		Hits: n(tally.Hits), Misses: n(tally.Misses), DiedIdle: n(tally.DiedIdle), DiedOfAge: n(tally.DiedOfAge),
		Due: n(tally.Due), Touched: touch(TouchWritten), Adopted: n(tally.Adopted), Lowered: n(tally.Lowered),
		Damped: n(tally.Damped), Shared: touch(TouchShared), TouchLost: touch(TouchLost), Deferred: touch(TouchDeferred),
		TouchFails: touch(TouchFailed), Retried: n(tally.Retried), Shed: touch(TouchShed),
		OverBudget: n(tally.OverBudget), QueueFull: n(tally.QueueFull), Saturated: saturated,
		Broken: time.Duration(n(tally.Broken)) * time.Millisecond, HookPanics: n(tally.Panics),
		Pending: waiting, BreakerOpen: now.Failing, Late: now.Late || now.Failing,
	}
}
