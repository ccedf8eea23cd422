package archive

import (
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
)

// A batch is compressed fast, because its source waits and may hold row locks meanwhile. A
// merged file is compressed well, because it stays.
var (
	batchCodec = newCodec(zstd.SpeedFastest)
	mergeCodec = newCodec(zstd.SpeedDefault)
)

// codec is parquet-go's Zstandard, but for its encoders. These, over a megabyte each, are made
// once and shared; parquet-go keeps them in a sync.Pool, which drops them at each garbage
// collection.
type codec struct {
	compress.Codec // decodes, and says its name
	encoder        func() *zstd.Encoder
}

func newCodec(level zstd.EncoderLevel) *codec {
	return &codec{Codec: &parquet.Zstd, encoder: sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil,
			zstd.WithEncoderLevel(level),
			zstd.WithEncoderConcurrency(min(runtime.GOMAXPROCS(0), 4)), // so many are made at once
			zstd.WithLowerEncoderMem(true),                             // each keeps what a long value takes
			zstd.WithEncoderCRC(false),
			zstd.WithZeroFrames(true))
		if err != nil {
			panic(err)
		}
		return e
	})}
}

// Encode implements compress.Codec.
func (c *codec) Encode(dst, src []byte) ([]byte, error) {
	return c.encoder().EncodeAll(src, dst[:0]), nil
}
