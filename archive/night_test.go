//go:build night && !race

package archive_test

func init() {
	pauseAtReads = true
	crashes = []crashRun{{2, true}, {3, false}}
}
