package archive

import "testing"

// OpenWith is OpenDirectory, with another fsync of files and directories.
var OpenWith = openDirectory

// Shorten has row groups end after so many rows, and merged files after so many bytes, for
// the time of a test.
func Shorten(t *testing.T, rows int, bytes int64) {
	r, b := groupRows, mergeBytes
	groupRows, mergeBytes = rows, bytes
	t.Cleanup(func() { groupRows, mergeBytes = r, b })
}

// Narrow has files merged at once need no more memory than room, for the time of a test.
func Narrow(t *testing.T, room int64) {
	was := mergeRoom
	mergeRoom = room
	t.Cleanup(func() { mergeRoom = was })
}

// CompareAtOnce has Compact compare the days of so many lives at once, for the time of a test.
func CompareAtOnce(t *testing.T, rows int64) {
	was := mendRows
	mendRows = rows
	t.Cleanup(func() { mendRows = was })
}
