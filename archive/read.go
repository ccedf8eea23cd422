package archive

import (
	"context"
	"errors"
	"io"
)

// readAll returns the content of a small file.
func readAll(ctx context.Context, b Bucket, name string) ([]byte, error) {
	var all []byte
	for chunk := make([]byte, 64<<10); ; {
		n, err := b.ReadAt(ctx, name, chunk, int64(len(all)))
		all = append(all, chunk[:n]...)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
