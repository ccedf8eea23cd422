// Package compare holds the programs behind docs/compare.md: each shows, against a library itself, what a
// cell of that page denies it. A test fails when the library does it after all, and the page is then wrong.
//
//	go test -v .
package compare
