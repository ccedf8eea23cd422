//go:build night && !race

package archive_test

func init() {
	atNight, pauseAtReads = true, true
	crashes = []crashRun{{2, true}, {3, false}}
}
