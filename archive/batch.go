package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Batch is what a source hands over at once. It is held in memory: some thousand records.
//
// A batch has no name: it is known by the lives in it. So a source that cuts its batches
// otherwise after a crash can never have one taken for another and dropped.
type Batch struct {
	// Source names where the records come from, such as a table. It belongs to their
	// identity: another name, and they are other records.
	Source string

	Records []Record
}

func (b *Batch) check() error {
	if b.Source == "" {
		return &driver.InvalidError{Field: "Batch.Source", Value: "empty", Rule: "must have at least one byte"}
	}
	return checkText("Batch.Source", b.Source)
}

// markOf is the name, for file names, of a batch's records of one day: a hash of the lives,
// which are in their order.
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
