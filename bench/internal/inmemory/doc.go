// Package inmemory measures a sliding hit in this process's memory. That is a read that
// returns the value and moves the record's expiry to a full idle timeout from now.
//
// All contestants hold the same values (64 bytes) under the same keys (16 bytes),
// copy the value out on every read, and are configured without a bound on size.
// Where a library has no read that slides, the read is followed by the write that
// slides it, as its users do. Before anything is timed, each proves on the clock
// that reads keep a record alive and that it dies without.
package inmemory
