//go:build night && !race

package archive_test

func init() { pauseAtReads = true }
