package s3

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// spoolBytes bounds the part of a spool that is in memory.
const spoolBytes = 32 << 20

// spool holds a file until it is complete. A file longer than spoolBytes goes to a temporary file.
type spool struct {
	memory bytes.Buffer
	file   *os.File
}

// Write implements io.Writer.
func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.memory.Len()+len(p) <= spoolBytes {
		return s.memory.Write(p)
	}
	if s.file == nil {
		f, err := os.CreateTemp("", "slidingttl-archive-*")
		if err != nil {
			return 0, err
		}
		s.file = f
		_ = os.Remove(f.Name()) // so its content goes with the process; some systems refuse until it is closed
		if _, err := s.memory.WriteTo(f); err != nil {
			return 0, err
		}
	}
	return s.file.Write(p)
}

// reader returns what was written, from its beginning.
func (s *spool) reader() (io.ReadSeeker, error) {
	if s.file == nil {
		return bytes.NewReader(s.memory.Bytes()), nil
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return keepOpen{s.file}, err
}

// keepOpen hides the file's Close from the SDK.
type keepOpen struct{ io.ReadSeeker }

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err, removed := s.file.Close(), os.Remove(s.file.Name())
	if errors.Is(removed, fs.ErrNotExist) {
		removed = nil
	}
	return errors.Join(err, removed)
}
