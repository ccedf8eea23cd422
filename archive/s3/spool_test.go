package s3

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// What a spool writes to the disk has no name there, so that a process that is killed leaves nothing.
func TestSpoolHasNoName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s := new(spool)
	want := bytes.Repeat([]byte("secret"), spoolBytes/5)
	if _, err := s.Write(want); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || s.file == nil {
		t.Errorf("%v, %v", left, err)
	}
	r, err := s.reader()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
