package sql

import "fmt"

// text scans texts, many of which share a piece of memory.
type text struct {
	bytes []byte // the last one; nil for NULL
	room  []byte
}

const textRoom = 1 << 18

// Scan implements sql.Scanner.
func (t *text) Scan(src any) error {
	switch src := src.(type) {
	case nil:
		t.bytes = nil
	case string:
		t.bytes = append(t.free(len(src)), src...)
	case []byte:
		t.bytes = append(t.free(len(src)), src...)
	default:
		return fmt.Errorf("a %T is no text", src)
	}
	return nil
}

// free is memory for n bytes, and no more, that nobody else has.
func (t *text) free(n int) []byte {
	if n > len(t.room) {
		t.room = make([]byte, max(n, textRoom))
	}
	free := t.room[:0:n]
	t.room = t.room[n:]
	return free
}
