// Package integration tests package hot over Redis: the contract of a driver, and what the
// server's tracking pushes. It is a module of its own, so that whoever holds records in memory
// inherits no client of a store.
package integration
