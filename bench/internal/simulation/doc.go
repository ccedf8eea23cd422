// Package simulation runs nodes that share a store through hours of virtual time. It counts
// what each way of keeping records alive writes, and which promises it breaks.
//
// A read of a key at t promises that the record can be read until min(t + idle
// timeout, created_at + max lifetime). Here t is when the answer has reached the
// node. A record's life ends when its stored expiry or its cap is reached, whichever
// comes first: by how much that is before its last promise is "early", by how much
// after it "late". Every life counts, those that last beyond the simulation too.
//
// Everything takes place in testing/synctest's bubbles: the clock stands still while
// anybody computes, and trips to the store take time at random, so that nodes, and
// callers on one node, race each other as they would in life. A write is counted
// when it reaches the store, also where its condition fails.
package simulation
