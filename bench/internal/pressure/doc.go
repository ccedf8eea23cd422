// Package pressure simulates stores under pressure, in virtual time. Many processes read
// one key at once, a store refuses touches for a while and recovers, or more touches are
// due than a budget allows. The strategy to compare with is inline: a read that finds a
// touch due writes it at once, and waits for it.
//
// A read of a key at t promises that the record can be read until t + idle timeout. A
// record dies early when a read finds it dead before its last promise has run out, or
// is left at the end with an expiry before that. The store is a driver behind legs of
// a fixed time, and counts a touch when it arrives, also where it is refused.
package pressure
