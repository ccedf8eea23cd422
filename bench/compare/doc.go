// Package compare holds the tests behind docs/compare.md, each against another library itself.
//
// A test shows what a cell of that page denies the library, and fails when the library does it after all.
//
//	go test -v .
package compare
