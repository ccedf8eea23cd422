package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
)

// checkSum reads a whole file and compares its hash with the one in its name.
func checkSum(ctx context.Context, b Bucket, f File) error {
	h := sha256.New()
	all := io.NewSectionReader(&section{ctx: ctx, bucket: b, name: f.Name}, 0, math.MaxInt64)
	if _, err := io.CopyBuffer(h, all, make([]byte, min(f.Size+1, 1<<20))); err != nil {
		return err
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
