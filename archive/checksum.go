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
	if sum := hex.EncodeToString(h.Sum(nil)); sum != f.SHA256 {
		return &CorruptError{File: f.Name, Err: fmt.Errorf("the SHA-256 of its bytes is %s", sum)}
	}
	return nil
}
