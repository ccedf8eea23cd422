package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// checkSum reads a whole file and compares its hash with the one in its name.
func checkSum(ctx context.Context, b Bucket, f File) error {
	h := sha256.New()
	chunk := make([]byte, min(f.Size+1, 1<<20))
	for off := int64(0); ; {
		n, err := b.ReadAt(ctx, f.Name, chunk, off)
		_, _ = h.Write(chunk[:n])
		off += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	return f.isSum(h.Sum(nil))
}

// hasSum compares the hash of a file's content with the one in its name.
func (f *File) hasSum(content []byte) error {
	sum := sha256.Sum256(content)
	return f.isSum(sum[:])
}

func (f *File) isSum(sum []byte) error {
	if sum := hex.EncodeToString(sum); sum != f.SHA256 {
		return &CorruptError{File: f.Name, Err: fmt.Errorf("the SHA-256 of its bytes is %s", sum)}
	}
	return nil
}
