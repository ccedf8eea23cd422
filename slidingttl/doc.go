// Package slidingttl keeps records alive by access, for stores that know only one
// expiry a record. It gives each record two limits at once: an idle grace, after
// which a record that nobody touches dies, and a max lifetime that no record
// outlives, however hot.
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
// # The model
//
// A record has a created_at C and a stored expiry E. An access at t promises that
// the record stays readable until
//
//	Deadline(C, t) = min(t + IdleGrace, C + MaxLifetime)
//
// and touches the record, which writes
//
//	Expiry(C, t) = min(t + IdleGrace + Slack, C + MaxLifetime)
//
// only if E falls short of that promise. See [Policy].
//
// # The promises
//
//  1. Exact by default. Without slack a touch writes exactly the deadline.
//  2. Touch only when due. An access whose promise the stored expiry keeps already
//     writes nothing: with slack at most one write per 15/16 of it, at the cap none.
//  3. Never early. What was read at t stays readable until Deadline(C, t), for every
//     reader: a record whose expiry passed while it was read is read again before it
//     is said not to be there. An expiry is rounded up to the store's resolution.
//     Only a touch that failed or died with its process breaks this; failures count.
//  4. Never late by more than slack and resolution, and never past the cap. A store
//     that deletes late is not believed: every read and write checks for itself. A
//     touch lands only on the version of the record that it was planned for.
//  5. No resurrection. A touch never creates a record nor revives a dead one. An
//     upsert after death starts a new life.
//  6. created_at is kept. Overwriting a live record keeps it; it names the record's
//     generation, and a write planned for one generation lands on no other.
//  7. Forward only, and tighter at once. A late or slow touch never shortens a life.
//     Only where a policy was made tighter does the next access bring an expiry down
//     that lies beyond it; see [Store.SetPolicy] and [Options].MaxSkew.
//  8. Reads do not fail, and do not wait long, because a touch did. See
//     [Options].TouchWait, Strict and OnTouchError.
//  9. One touch of a key at a time. Concurrent ones share a call, on a context that
//     no caller's cancellation ends; each caller waits only as long as its own.
//  10. Adoption. A record without created_at gets one on its first access. See [Foreign].
//  11. Nothing leaks, and nothing is dropped silently. Close waits for the calls under
//     way in all their parts, and drains what is pending and what they find due, or says
//     what it gave up. What waits holds nothing of its caller's but the key. Keys stay
//     out of error texts.
//  12. Bad input is an error that names field, value and rule, never a guess. In a call
//     for many keys it names the place of the key; the other keys get their answer.
//  13. An answer says what happened. A write that may have landed is ErrAmbiguous.
//  14. Retire ends a life, whatever the policy, and deletes nothing.
//
// # Five ways to access a record
//
//	Get         reads the value
//	Entry       reads the value, its life and its version
//	Touch       reads no value, waits, and says until when the record lives
//	Keep        the value was read by other means; waits only as a read does
//	TouchEntry  the value was read by Peek, and is now to count
//
// Upsert and Update are accesses too. Peek, PeekMulti and Insert are not, and neither is
// [Store.History], which reads what has died, where the backing store still holds it.
//
// For callers with an Entry, as Peek, Entry and each of these return it: InsertEntry,
// UpsertEntry, UpdateEntry, DeleteEntry and TouchEntry.
//
// # Units, time and concurrency
//
// Instants are whole milliseconds since the Unix epoch in UTC; durations in a Policy
// are whole milliseconds. The time is Options.Now, else the driver's clock, else the
// system's. App servers whose clocks differ by some amount may disagree by as much
// about when a record is dead, and no more.
//
// Everything here is safe for concurrent use. A Store starts no goroutine until a
// touch is due, and keeps none when no touch is pending.
package slidingttl
