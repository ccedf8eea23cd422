package slidingttl

import (
	"sync/atomic"
	"time"
	"unsafe"
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
	Shared     uint64 // due accesses served by another's touch of the same key
	TouchLost  uint64 // touches whose record was gone or replaced: no failure
	Deferred   uint64 // touches put off because another client has locked the record: no failure
	TouchFails uint64 // touches that failed
	Retried    uint64 // touches that failed, were counted in TouchFails, and wait since the breaker opened
	Shed       uint64 // touches given up because too many waited, or because they waited too long
	OverBudget uint64 // seconds in which touches went faster than the budget, because records would have died
	QueueFull  uint64 // background touches that waited because the queue was full

	Broken     time.Duration // what failed and shed touches cost of the life that was promised, at most
	HookPanics uint64        // panics recovered from hooks

	Pending     int  // touches waiting in the queue now
	BreakerOpen bool // the store does not take touches now
}

type counter int

const (
	cHits counter = iota
	cMisses
	cDiedIdle
	cDiedOfAge
	cDue
	cTouched
	cAdopted
	cLowered
	cShared
	cTouchLost
	cDeferred
	cTouchFails
	cRetried
	cShed
	cBroken // in milliseconds
	cOverBudget
	cQueueFull
	cHookPanics
	counters
)

const stripes = 32 // a power of two

// tally is a set of counters that goroutines do not contend for: each counts in
// the stripe its stack falls into.
type tally [stripes]struct {
	n [counters]atomic.Uint64
	_ [128 - counters*8%128]byte // stripes share no cache line
}

func (t *tally) add(c counter) { t.addN(c, 1) }

func (t *tally) addN(c counter, n int) {
	// The address of a local is at hand and differs by goroutine. A stripe drawn
	// at random costs more than the rest of a hit.
	var here byte
	at := uint64(uintptr(unsafe.Pointer(&here))) >> 11
	t[at*0x9e3779b97f4a7c15>>59].n[c].Add(uint64(n))
}

func (t *tally) sum(c counter) (n uint64) {
	for i := range t {
		n += t[i].n[c].Load()
	}
	return n
}

func (t *tally) stats() Stats {
	return Stats{
		Hits:       t.sum(cHits),
		Misses:     t.sum(cMisses),
		DiedIdle:   t.sum(cDiedIdle),
		DiedOfAge:  t.sum(cDiedOfAge),
		Due:        t.sum(cDue),
		Touched:    t.sum(cTouched),
		Adopted:    t.sum(cAdopted),
		Lowered:    t.sum(cLowered),
		Shared:     t.sum(cShared),
		TouchLost:  t.sum(cTouchLost),
		Deferred:   t.sum(cDeferred),
		TouchFails: t.sum(cTouchFails),
		OverBudget: t.sum(cOverBudget),
		QueueFull:  t.sum(cQueueFull),
		Retried:    t.sum(cRetried),
		Shed:       t.sum(cShed),
		Broken:     time.Duration(t.sum(cBroken)) * time.Millisecond,
		HookPanics: t.sum(cHookPanics),
	}
}
