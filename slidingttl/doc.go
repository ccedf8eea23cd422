// Package slidingttl keeps stored records alive by access, up to a max lifetime.
//
// Stores know one expiry a record, set when it is written. Here a record has two limits at
// once: an idle grace, after which it dies unless it was accessed, and a max lifetime, which
// it never outlives.
//
//	d, err := memory.New[Profile](nil)
//	...
//	store, err := slidingttl.New(d, slidingttl.Policy{
//		IdleGrace:   30 * 24 * time.Hour,
//		MaxLifetime: 90 * 24 * time.Hour,
//		Slack:       3 * 24 * time.Hour,
//	}, nil)
//	...
//	profile, err := store.Get(ctx, "profile:42") // keeps it alive
//
// # Calls
//
// An access keeps a record alive:
//
//	Get, GetMulti   reads the value
//	Entry           reads the value, its life and its version
//	Upsert, Update  writes the value
//	Touch           reads no value, waits, and says until when the record lives
//	Keep            the value was read by other means; waits only as a read does
//	TouchEntry      the value was read by Peek, and is now to count
//
// Peek, PeekMulti, Insert and [Store.History], which reads what has died, are no accesses.
// InsertEntry, UpsertEntry, UpdateEntry, DeleteEntry and TouchEntry are for callers with an
// Entry, as Peek, Entry and each of these return it. [Wrap] is for an existing repository.
//
// # The model
//
// A record has a created_at C and a stored expiry E. An access at t promises that the record
// stays readable until
//
//	Deadline(C, t) = min(t + IdleGrace, C + MaxLifetime)
//
// Only if E falls short of that does it touch the record, which writes
//
//	Expiry(C, t) = min(t + IdleGrace + Slack, C + MaxLifetime)
//
// # The promises
//
// docs/promises.md has them to the letter, each with the tests that hold it.
//
//  1. Exact by default: without slack a touch writes exactly the deadline.
//  2. Touch only when due: with slack at most once per 15/16 of it, at the cap never.
//  3. Never early: what was read at t stays readable until Deadline(C, t), for every reader,
//     unless its touch failed, which is counted, or died with its process.
//  4. Never late by more than slack and the store's resolution, and never past the cap.
//  5. No resurrection: a touch never creates a record nor revives a dead one. An upsert after
//     death starts a new life.
//  6. created_at is kept while a record lives. A write planned for one life lands on no other.
//  7. Forward only, and tighter at once: only a policy made tighter brings an expiry down, on
//     the next access; see [Store.SetPolicy] and [Options].MaxSkew.
//  8. Reads do not fail, and do not wait long, because a touch did; see [Options].TouchWait.
//  9. One touch of a key at a time: concurrent accesses share it.
//  10. Adoption: a record without created_at gets one on its first access; see [Foreign].
//  11. Nothing leaks, and nothing is dropped silently: Close waits for calls and touches, or
//     says what it gave up. What waits holds nothing of its caller's but the key.
//  12. Bad input is an error that names field, value and rule, and of many keys the place of
//     the bad one; the others get their answer. No error text holds a key.
//  13. An answer says what happened: a write that may have landed is ErrAmbiguous.
//  14. Retire ends a life, whatever the policy, and deletes nothing.
//
// # Units, time and concurrency
//
// Instants are whole milliseconds since the Unix epoch in UTC; durations in a Policy
// are whole milliseconds. The time is Options.Now, else the driver's clock, else the
// system's. Processes whose clocks differ may disagree by as much about when a record is dead.
//
// Everything here is safe for concurrent use. A Store starts no goroutine until a
// touch is due, and keeps none when no touch is pending.
package slidingttl
