package slidingttl

import (
	"context"
	"time"
)

// Observer has functions that a Store calls as it works. Stats has counters at no cost.
//
// Any of its functions may be nil, and costs nothing then. They are called on the goroutine
// that did it, possibly many at once, and should be quick. None is given a key. The context
// is the call's, so that a trace can go on. A panic is recovered, counted in Stats and
// returned by Close.
type Observer struct {
	// Read is called after every read, each key of a call for many by itself. It makes
	// each cost two readings of the clock, and the hits of a local store a longer way.
	Read func(ctx context.Context, e ReadEvent)

	// Touch is called at the end of every touch.
	Touch func(ctx context.Context, e TouchEvent)

	// Breaker is called when the store takes no touches (open), and when it does again.
	Breaker func(open bool)

	// Budget is called when touches go faster than Options.Budget (over), and when no longer.
	Budget func(over bool)
}

// ReadOutcome is what a read came to.
type ReadOutcome int

const (
	ReadHit       ReadOutcome = iota // a live record
	ReadAbsent                       // no record, and none is known to have died
	ReadDiedIdle                     // one that died of idleness
	ReadDiedOfAge                    // one that died at its cap
	ReadForeign                      // one without created_at, that the store rejects
	ReadFailed                       // the read failed
)

// String returns the outcome as metrics spell it.
func (o ReadOutcome) String() string {
	return [...]string{"hit", "absent", "died_idle", "died_of_age", "foreign", "error"}[o]
}

// ReadEvent is a read that has ended.
type ReadEvent struct {
	Op       string // "get", "peek", "get multi", "touch", "update"
	Outcome  ReadOutcome
	Duration time.Duration // of the read, without the wait for a touch
	Err      error         // of ReadFailed
}

// TouchOutcome is what a touch came to.
type TouchOutcome int

const (
	TouchWritten  TouchOutcome = iota // it was written
	TouchShared                       // another's touch of the key served
	TouchLost                         // the record was gone: no failure
	TouchDeferred                     // the record is locked by another client: no failure
	TouchFailed                       // it failed
	TouchShed                         // it was given up because too many waited, or it too long
)

// String returns the outcome as metrics spell it.
func (o TouchOutcome) String() string {
	return [...]string{"written", "shared", "lost", "deferred", "failed", "shed"}[o]
}

// TouchEvent is a touch that has ended.
type TouchEvent struct {
	Outcome  TouchOutcome
	Duration time.Duration // of the call that wrote or failed; zero for one that shared or waited
	Left     time.Duration // how long the record had left to live by the expiry that was read; negative: it was past
	Err      error         // of TouchFailed and TouchShed
}
