// Package tally counts without contention.
package tally

import (
	"sync/atomic"
	"unsafe"
)

// Counter is something that is counted.
type Counter int

// What a store counts; see slidingttl.Stats.
const (
	Hits   Counter = iota
	Slides         // hits with their touch: each is one of Hits, Due and Touched too, and counted once
	Misses
	DiedIdle
	DiedOfAge
	ReplacedIdle
	ReplacedOfAge
	Due
	Adopted
	Lowered
	Damped
	Behind
	Retried
	Broken // in milliseconds
	OverBudget
	QueueFull
	Panics
	HooksSkipped
	Outcomes // the first of those of touches, by touches.Result
	counters = Outcomes + 6
)

// Stripes is into how many parts a counter is split.
const Stripes = 1 << stripeBits

const stripeBits = 5

// Stripe is the part that the goroutine's stack falls into, below Stripes.
func Stripe() int {
	// The address of a local is at hand and differs by goroutine. A stripe drawn
	// at random costs more than the rest of a hit.
	var here byte
	at := uint64(uintptr(unsafe.Pointer(&here))) >> 11
	return int(at * 0x9e3779b97f4a7c15 >> (64 - stripeBits))
}

// Tally is a set of counters that goroutines do not contend for: each counts in the
// stripe that its stack falls into.
type Tally [Stripes]struct {
	n [counters]atomic.Uint64
	_ [128 - counters*8%128]byte // stripes share no cache line
}

// Add counts one c.
func (t *Tally) Add(c Counter) { t.AddN(c, 1) }

// AddN counts n of c.
func (t *Tally) AddN(c Counter, n int) {
	t[Stripe()].n[c].Add(uint64(n))
}

// Sum returns how many c were counted.
func (t *Tally) Sum(c Counter) (n uint64) {
	for i := range t {
		n += t[i].n[c].Load()
	}
	return n
}
