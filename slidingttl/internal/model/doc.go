// Package model tests the store against its contract: random histories of several
// processes on one backend, in virtual time, judged by an oracle that sees what the
// backend really holds. It consists of tests; see TestModel.
//
// A history is drawn from a seed: policies, clocks, budgets, the store's kind, latencies,
// faults, outages that open breakers, and what clients do when, often right around a
// death. The backend logs what each key held from when to when. Three things are checked
// against that log:
//
//   - every write a store sends: is it due, is it exactly what the policy says, may it
//     lower an expiry, does it keep created_at (writes_test.go);
//   - every answer a client gets: was a value stored and alive at some moment of the
//     call, was a missing one dead or absent (answers_test.go);
//   - what an access leaves once its touch is done: an expiry that keeps its promise, and
//     none that a tighter policy forbids (duty_test.go).
//
// The oracle's arithmetic is its own and shares no code with the store's.
package model
