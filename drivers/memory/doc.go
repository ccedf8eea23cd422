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
// Values are stored and returned as they are; only T itself is copied. If T holds pointers,
// maps or slices, all callers and the store share what they point to: treat it as read-only
// and write a new value.
//
// # Cost
//
// A read takes no lock and writes to no shared memory, so reads scale with the cores.
// Writes take turns by a 256th of the keys. On a 64-bit machine a record costs the size of
// T, 48 bytes of its own, and a copy of its key. A key of at most 48 bytes is rounded up to
// 16 bytes, a longer one takes 16 bytes more. The sum is rounded up to an allocation class,
// and the table takes 12 to 24 bytes. Get, Touch and Delete do not allocate, except that
// now and then a Delete shrinks a part of the table.
//
// # Expiry
//
// Records lie in a hierarchical timing wheel. A touch only stores the new expiry in the
// record; the wheel looks at it when the record's slot comes up. One goroutine removes a
// dead record within 32 ms of its expiry, or of its expiry and [Options].Retain. It sleeps
// when no slot is due and works in small batches, so that neither reads nor writes wait for
// it. Delete and Replace take a record out of the wheel at once. Each 256th of the table
// shrinks when less than an eighth of it is in use.
//
// # Time
//
// The driver reads the system clock once, in New, and then counts by the monotonic clock.
// So setting the system clock neither kills nor revives records. Time during which the
// machine is suspended does not count if the monotonic clock stops meanwhile, as on Linux.
// See [Driver.Bounds] for the coarse clock behind it, and [Options].Now for a time that a
// test can move.
//
// # Why no cache library underneath
//
// The obvious choice would be otter v2 (read at 2.4.0), in which the cache owns the expiry. A
// read that extends it builds an entry, calls a calculator, swaps the deadline, and reads the
// clock up to twice. otter drops moves of up to a second, so an entry may expire up to a
// second before what its last read promised (ExpiryCalculator.ExpireAfterRead); a store here
// needs the exact deadline. Its SetExpiresAfter moves an expiry unconditionally, by key: it
// takes no creation time, version or expected expiry, so a late touch could land on another
// record. Its clean-up wakes every second. A sliding hit takes about twice as long;
// bench/RESULTS.md has the figures.
//
// The table is this package's own too. A general map (xsync v4, read at 4.5.0) keeps an
// entry for each key between its buckets and the value. That costs 40 bytes more a record,
// and one more cache miss on a read that misses the caches, which is most of such a read.
package memory
