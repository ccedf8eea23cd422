package slidingttl

import (
	"context"
	"time"
)

// Observer has functions that a Store calls as it works. Stats has counters at no cost.
//
// Any of its functions may be nil, and then costs nothing. They should be quick: Read is called on the
// caller's goroutine, and so is Touch over a store in memory, many at once; the others on one goroutine of
// the store's, one at a time and in order, for which no call but Close waits. None gets a key. The
// context is the call's, so that a trace can continue. A panic is recovered, counted in Stats and
// returned by Close.
type Observer struct {
	// Read is called after every read, in a call for many once for each key. It costs two
	// readings of the clock a read, and makes hits of a local store slower.
	Read func(ctx context.Context, e ReadEvent)

	// Touch is called at the end of every touch.
	Touch func(ctx context.Context, e TouchEvent)

	// Breaker is called when the store refuses touches (open), and when it accepts them again.
	Breaker func(open bool)

	// Budget is called when touches exceed Options.Budget (over), and when that ends.
	Budget func(over bool)
}

// ReadOutcome is the result of a read.
type ReadOutcome int

const (
	ReadHit       ReadOutcome = iota // a live record
	ReadAbsent                       // no record, and none is known to have died
	ReadDiedIdle                     // a record that died of idleness
	ReadDiedOfAge                    // a record that died at its cap
	ReadForeign                      // a record without created_at, which the store rejects
	ReadFailed                       // the read failed
)

// String returns the outcome as metrics spell it.
func (o ReadOutcome) String() string {
	return [...]string{"hit", "absent", "died_idle", "died_of_age", "foreign", "error"}[o]
}

// ReadEvent is a read that has ended.
type ReadEvent struct {
	Op       string // "get", "peek", "get multi", "get or insert", "touch", "update", "retire"
	Outcome  ReadOutcome
	Duration time.Duration // of the read, without the wait for a touch
	Err      error         // of ReadFailed
}

// TouchOutcome is the result of a touch.
type TouchOutcome int

const (
	TouchWritten  TouchOutcome = iota // it was written
	TouchShared                       // another touch of the key was enough
	TouchLost                         // the record was gone: no failure
	TouchDeferred                     // the record is locked by another client: no failure
	TouchFailed                       // it failed
	TouchShed                         // it was given up: too many waited, or its record died first
)

// String returns the outcome as metrics spell it.
func (o TouchOutcome) String() string {
	return [...]string{"written", "shared", "lost", "deferred", "failed", "shed"}[o]
}

// TouchEvent is a touch that has ended.
type TouchEvent struct {
	Outcome  TouchOutcome
	Duration time.Duration // of the call that wrote or failed; zero for a touch that shared or waited
	Left     time.Duration // time until the expiry that was read; negative: it had passed; the longest Duration: there was none
	Err      error         // of TouchFailed and TouchShed
}
