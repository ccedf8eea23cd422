// Package hot keeps the most-read records in this process's memory, in front of any other
// driver. A read that it can answer makes no trip.
//
//	links, err := hot.New(d, hot.Bounds{Records: 100_000, Staleness: 30 * time.Second}, nil)
//	...
//	store, err := slidingttl.New(links, policy, nil)
//
// # What it promises
//
// An answer from memory is at most Bounds.Staleness old, and never past the record's
// expiry. The store checks the cap in any case. This process sees its own writes and
// deletes at once. It sees those of others within Bounds.Staleness, or as soon as
// [Driver.Forget] is called: over Redis, redis.Invalidations calls it.
//
// If a key is read while this process writes it, the result is not held, because the order
// of the two is unknown. A value that was written is read back from the store once, so that
// the held value is the one that other processes see. A touch moves the held expiry, if
// exactly that record was touched. Absence of a key is held only with Bounds.Absence, and
// for that long.
//
// Reads of one key that find nothing in memory share one trip; if the goroutine making the
// trip gives up, another takes it over. If the wrapped driver's reads may be stale
// (driver.Latest), the trip is a read of the latest state, so that the two delays do not
// add up; on DynamoDB it costs twice the units. A batch on such a driver may be stale, and
// its results are not held.
//
// # What it is not for
//
// Not for records whose deletion must hold everywhere at once, such as sessions: a user who
// logs out on one server stays logged in on the others for up to Bounds.Staleness, or over
// Redis until the invalidation arrives. Check fails until Options.LateDeletes says that
// late deletes do no harm. With slidingttl.Options.Latest every read bypasses memory.
//
// Not for policies without slack. There nearly every read needs a touch, and so makes a
// trip.
//
// # Values
//
// Many readers get the same held value at once: do not write to what it points to.
package hot
