package archive

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const checkpointPrefix = "checkpoints/"

// Checkpoint returns what SaveCheckpoint saved last under name, and nil if it saved nothing.
func (w *Writer) Checkpoint(ctx context.Context, name string) ([]byte, error) {
	if err := checkCheckpoint(name); err != nil {
		return nil, err
	}
	content, err := readAll(ctx, w.bucket, checkpointPrefix+name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

// SaveCheckpoint stores value, a source's position, beside the archive, under name. It
// replaces the former value as a whole or not at all. A source saves its position after
// Write returned nil, never before. The value is stored as it is, and [Forget] does not
// look into it: keep no key in it that may have to be forgotten.
func (w *Writer) SaveCheckpoint(ctx context.Context, name string, value []byte) error {
	if err := checkCheckpoint(name); err != nil {
		return err
	}
	return w.bucket.Put(ctx, checkpointPrefix+name, value)
}

func checkCheckpoint(name string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	if name == "" || len(name) > 200 || strings.Trim(name, letters) != "" || strings.HasPrefix(name, ".") {
		return &driver.InvalidError{
			Field: "checkpoint", Value: strconv.Quote(name),
			Rule: "must be a name of letters, digits, -, _ and . that does not begin with a dot, of at most 200 bytes",
		}
	}
	return nil
}
