package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"runtime"

	"github.com/parquet-go/parquet-go"
)

// A row group ends after so many rows, or so many bytes, or a value of largeValue. The
// writer holds it in memory, compressed, until then.
var (
	groupRows  = 1 << 16
	groupBytes = 32 << 20
	largeValue = 4 << 20

	writeBuffer = parquet.DefaultWriteBufferSize
)

const (
	// longBound is the number of bytes of a page's least and greatest value that are written. The writer
	// holds all bytes of both until the file ends.
	longBound = 4096
	// longBytes ends a merged file, when it has so many bytes of keys and columns longer than that.
	longBytes = 32 << 20
)

// encoder writes a file. Records must come in the order of their identities.
type encoder struct {
	*layout
	w     *parquet.GenericWriter[any]
	sum   hash.Hash
	to    io.Writer
	size  int64
	rows  int64
	long  int // bytes of long keys and columns
	cells cells
	group struct{ rows, bytes int }
}

func newEncoder(w io.Writer, l *layout, c *codec) *encoder {
	e := &encoder{layout: l, sum: sha256.New(), to: w}
	e.w = parquet.NewGenericWriter[any](e, l.schema,
		parquet.Compression(c),
		parquet.WriteBufferSize(writeBuffer),
		parquet.CreatedBy("slidingttl", "archive", "1"),
		parquet.BloomFilters(parquet.SplitBlockFilter(10, colKey)),
		parquet.ColumnIndexSizeLimit(func([]string) int { return longBound }),
		parquet.SkipPageBounds(colValue),
		parquet.SkipPageStatistics(colValue),
		parquet.SortingWriterConfig(parquet.SortingColumns(
			parquet.Ascending(colKey), parquet.Ascending(colSource), parquet.Ascending(colGeneration))))
	return e
}

// Write implements io.Writer, for the file's bytes.
func (e *encoder) Write(p []byte) (int, error) {
	n, err := e.to.Write(p)
	_, _ = e.sum.Write(p[:n])
	e.size += int64(n)
	return n, err
}

func (e *encoder) add(a *Archived) error {
	row := e.row(&e.cells, a)
	large := len(a.Value) >= largeValue
	if large {
		runtime.GC() // else it lets the memory double
		defer runtime.GC()
	}
	if _, err := e.w.WriteRows([]parquet.Row{row}); err != nil {
		return err
	}
	row[e.value] = parquet.Value{} // it may be long
	e.rows++
	e.group.rows++
	all, long := a.size()
	e.group.bytes += all + long // parquet-go rounds pages of few values up
	e.long += long
	if e.group.rows < groupRows && e.group.bytes < groupBytes && !large {
		return nil
	}
	e.group.rows, e.group.bytes = 0, 0
	return e.w.Flush()
}

// close ends the file and returns the hash of its bytes.
func (e *encoder) close() (string, error) {
	if err := e.w.Close(); err != nil {
		return "", err
	}
	return hex.EncodeToString(e.sum.Sum(nil)), nil
}
