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
func checkSum(ctx context.Context, b Bucket, f dataFile) error {
	return (&section{ctx: uncached.Context(ctx), bucket: b, name: f.name}).checkSum(f)
}

func (s *section) checkSum(f dataFile) error {
	h := sha256.New()
	if _, err := io.CopyBuffer(h, io.NewSectionReader(s, 0, math.MaxInt64), make([]byte, min(f.size+1, 1<<20))); err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != f.sum {
		return &CorruptError{File: f.name, Err: fmt.Errorf("the SHA-256 of its bytes is %s", sum)}
	}
	return nil
}
