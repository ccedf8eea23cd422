package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Batch is the records of one call of Write, some thousand, all in memory.
//
// A batch has no name: the lives in it identify it. So if a source divides its records
// differently after a crash, no batch is mistaken for another and dropped.
type Batch struct {
	// Source names the records' origin, such as a table. It is part of their identity:
	// under another name they are other records.
	Source string

	Records []Record
}

func (b *Batch) check() error {
	if b.Source == "" {
		return &driver.InvalidError{Field: "Batch.Source", Value: "empty", Rule: "must have at least one byte"}
	}
	return checkText("Batch.Source", b.Source)
}

// markOf returns a hash of the lives in a day's sorted records. File names identify batches by it.
func markOf(records []entry) string {
	h := sha256.New()
	var b []byte
	for i := range records {
		id := &records[i].id
		b = b[:0]
		for _, s := range []string{id.key, id.source, id.generation} {
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
		}
		_, _ = h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
