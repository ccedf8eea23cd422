// Package driver defines what a store must offer to get a sliding expiry.
//
// Applications configure a driver and hand it to slidingttl.New; only authors of drivers need
// to read further.
//
// A driver is small and has no policy. It stores a value together with a [Life], reads both back,
// and writes only if the record is still the one that was read. Package slidingttl decides, once
// for all stores, when a touch is due, what it writes, which records are past their cap, and how
// often a write is retried after a conflict.
//
// # Rules
//
// Instants. All instants are whole milliseconds since the Unix epoch, UTC
// ([Instant]). A store with a coarser clock says so in Driver.Resolution; the
// expiries it is handed are multiples of that step, rounded up by the caller.
// created_at is kept to the millisecond whatever the resolution.
//
// Compare-and-swap. Replace and Touch name the record they were planned for by its [Meta]. They
// land on exactly that record or not at all. A [*ConflictError] returns the record found instead,
// so that the caller can plan again without another read.
//
// Dead records. Every write is given the caller's time. A record whose expiry is
// at or before it is dead, whatever the store still holds: Insert replaces it,
// Replace and Touch answer [ErrNotFound]. Nothing but Insert ever creates a record. A store that
// can tell its time decides by that instead, except under [WithOtherClock].
//
// Retention. A driver may let its store hold dead records for a while, by an option Retain of its
// own: the store's expiry is then later than ExpiresAt by that time, and nothing else changes.
// Drivers with another Retain or none, and other programs, write to the same store. If the store
// has a single expiry, keep ExpiresAt next to it, with a mark that ties it to the write which set
// the store's expiry: if another program has moved the store's expiry since, ExpiresAt does not
// count.
//
// Contexts. A call returns soon after its context ends, with the context's error
// unchanged or wrapped. The store above waits for running calls when it is closed.
// A [Local] driver, which never blocks, need not look at contexts.
//
// Optional capabilities are interfaces of their own, one a file, each with a function that falls
// back when a driver does not have it: [BatchGetter], [Upserter], [Overwriter], [ReadToucher],
// [Latest], [Remover], [Scanner], [Dying], [RawReader], [Mender], [Checker], [Clock], [Local],
// [Slider], [Eraser]. [As] finds them, also behind a [Wrapper].
//
// Package drivertest holds these rules as a suite that any driver can run.
package driver
