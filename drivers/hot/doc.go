// Package hot keeps the most-read records in this process's memory, in front of any other
// driver. A read that it can answer makes no trip.
//
//	links, err := hot.New(d, hot.Bounds{Records: 100_000, Staleness: 30 * time.Second}, nil)
//	...
//	store, err := slidingttl.New(links, policy, nil)
//
// # What it promises
//
// An answer from memory is at most Bounds.Staleness old, and never past the record's expiry;
// past the cap the store above answers nothing in any case. What this process writes or deletes it
// sees at once. What others write or delete it sees within Bounds.Staleness, or as soon as it
// is told by [Driver.Forget]: over Redis, redis.Invalidations has the server tell.
//
// What is read for a key while this process writes it is not held, for nobody knows which came
// first. A value that was written is read back from the store once, so that what is held is
// what other processes see. A touch moves the expiry of what is held, if it is the very record
// that was touched. That a key is absent is held with Bounds.Absence
// only, and for so long.
//
// Reads of one key that find nothing in memory share one trip; if the goroutine making the trip gives up,
// another takes it over. It is one that is not stale where the wrapped driver has such reads
// (driver.Latest), so that its staleness does not come on top; on DynamoDB those cost
// twice the units. A batch is one that may be stale there, and then only passes through.
//
// # What it is not for
//
// Not for records whose deletion must hold everywhere at once: who logs out on one server stays
// logged in on the others until they are told, as over Redis, or for up to
// Bounds.Staleness. Check reports that, until Options.LateDeletes says that it is known and does
// no harm. A store with slidingttl.Options.Latest passes memory by on every read.
//
// Not for policies without slack. There nearly every read owes the store a touch, which is the trip
// that was to be saved.
//
// # Values
//
// A value is handed out as it is held, to many readers at once: what it points to must not be
// written to.
package hot
