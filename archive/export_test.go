package archive

import (
	"context"
	"encoding/json"
	"testing"
)

// OpenWith is OpenDirectory, with another fsync of files and directories.
var OpenWith = openDirectory

// Shorten limits row groups to so many rows, and merged files to so many bytes, during a test.
func Shorten(t *testing.T, rows int, bytes int64) {
	r, b, w := groupRows, mergeBytes, writeBuffer
	groupRows, mergeBytes, writeBuffer = rows, bytes, 0
	t.Cleanup(func() { groupRows, mergeBytes, writeBuffer = r, b, w })
}

// Narrow bounds the memory for files that are merged at once by room, during a test.
func Narrow(t *testing.T, room int64) {
	was := mergeRoom
	mergeRoom = room
	t.Cleanup(func() { mergeRoom = was })
}

// OneByOne has files read and removed one after the other, in order, during a test.
func OneByOne(t *testing.T) {
	was := lookups
	lookups = 1
	t.Cleanup(func() { lookups = was })
}

// ManifestOf is the content of a manifest file of merged files, by their base names.
func ManifestOf(t *testing.T, files ...string) []byte {
	s := swap{Version: swapVersion, Files: files, Batches: []string{}}
	s.Sum = s.checksum()
	content, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Names returns the names of the files that count, by day.
func (r *Reader) Names(ctx context.Context, span Span) (map[Day][]string, error) {
	all, err := r.manifests(ctx, span)
	names := map[Day][]string{}
	for _, m := range all {
		for _, f := range m.files {
			names[m.day] = append(names[m.day], f.name)
		}
	}
	return names, err
}

// CheckSum is Writer.checkSum of a merged file.
func (w *Writer) CheckSum(ctx context.Context, name string, size int, sum string) error {
	return w.checkSum(ctx, dataFile{name: name, size: int64(size), sum: sum, merged: true})
}
