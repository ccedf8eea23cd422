package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"

	"github.com/slidingttl/slidingttl/archive/internal/uncached"
)

// checkSum reads a whole file, past every cache, and compares its hash with the one in its name.
func checkSum(ctx context.Context, b Bucket, f File) error {
	return (&section{ctx: uncached.Context(ctx), bucket: b, name: f.Name}).checkSum(f)
}

func (s *section) checkSum(f File) error {
	h := sha256.New()
	if _, err := io.CopyBuffer(h, io.NewSectionReader(s, 0, math.MaxInt64), make([]byte, min(f.Size+1, 1<<20))); err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != f.SHA256 {
		return &CorruptError{File: f.Name, Err: fmt.Errorf("the SHA-256 of its bytes is %s", sum)}
	}
	return nil
}
