// Package memory keeps records in this process's memory. It is for tests and single-process
// services, and the reference for what package slidingttl expects of a driver.
//
//	d, err := memory.New[Session](nil)
//	if err != nil {
//		return err
//	}
//	defer d.Close()
//
// # Values
//
// A value is stored as it is and handed out as it is; nothing is copied but T
// itself. Where T holds pointers, maps or slices, every caller and the store
// share what they point to: treat it as read-only and write a new value.
//
// # Cost
//
// A read takes no lock and writes to no shared memory, so reads scale with the
// cores. Writes take turns by a 256th of the keys. A record costs the size of T, on
// a machine of 64 bits 48 bytes of its own, and its key, of which a copy is kept: rounded up to 16 bytes
// where it has at most 48, else with 16 bytes more; all this rounded up to an
// allocation class, and 12 to 24 bytes in the table. Get, Touch and Delete allocate
// nothing, except that now and then a Delete shrinks a part of the table.
//
// # Expiry
//
// Records lie in a hierarchical timing wheel. A touch only stores the new expiry
// in the record; the wheel looks at it when the record's slot comes up. A dead
// record is removed, and its memory given back to the garbage collector, within
// 32 ms of its expiry ([Options].Retain later where that is set), by one goroutine that sleeps when no slot is due and works
// in small batches, so that neither reads nor writes wait for it. Delete and
// Replace take a record out of the wheel at once. Each 256th of the table shrinks
// when less than an eighth of it is in use.
//
// # Time
//
// The driver reads the system clock once, in New, and counts on from there on the
// monotonic clock. A step of the system clock neither kills records nor revives
// them; time during which the machine is suspended does not count where the
// monotonic clock stops meanwhile, as it does on Linux. See [Driver.Bounds] for
// the coarse clock behind it, and [Options].Now for a time that a test can move.
//
// # Why no cache library underneath
//
// The obvious choice would be otter v2 (read at 2.4.0). It is a cache whose
// expiry belongs to the cache: a read that extends it builds an entry, calls a
// calculator and swaps the deadline under the reader, reading the clock up to
// twice; and moves of up to a second are dropped, so that an entry may expire up
// to a second earlier than its last read promised (ExpiryCalculator.ExpireAfterRead),
// where a store here owes the exact deadline. Its SetExpiresAfter moves an expiry
// by key alone, on no condition: no creation time, no version, no expected expiry
// can be named, so a late touch could land on another record. Its clean-up wakes
// every second. A sliding hit of it takes about twice as long; bench/RESULTS.md has the
// figures.
//
// The table is this package's own too. A general map (xsync v4, read at 4.5.0) keeps an
// entry for each key between its buckets and the value: one more place in memory to
// wait for on a read that misses the caches, which is then all that a read does, and
// 40 bytes more a record.
package memory
