//go:build night

package archive_test

func init() { pauseAtReads = true }
