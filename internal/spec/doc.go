// Package spec has the vectors of docs/specification.md, and the model that they are written from.
//
// The vectors are JSON files in spec/vectors, for implementations in any language. All durations
// and instants are whole milliseconds, instants since the Unix epoch, and zero is none. The tests here
// write the files from the model, which imports nothing of what it judges:
//
//	go test ./internal/spec -update
//
// The tests of policy, of slidingttl and of the drivers read them; package check runs those that need
// a store.
package spec
