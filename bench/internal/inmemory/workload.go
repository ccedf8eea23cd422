package inmemory

import (
	"math/rand/v2"
	"strconv"
	"unsafe"
)

const (
	keyLen = 16
	// streamLen is how many reads a stream holds before it begins anew.
	streamLen = 1 << 20
	hotKeys   = 1024
)

const hexDigits = "0123456789abcdef"

// appendKey appends the key of record i. Neighbours in number are none in key.
func appendKey(b []byte, i int) []byte {
	h := uint64(i+1) * 0x9e3779b97f4a7c15
	for range keyLen {
		b = append(b, hexDigits[h>>60])
		h <<= 4
	}
	return b
}

func keyOf(i int) string { return string(appendKey(make([]byte, 0, keyLen), i)) }

func valueOf(i int) value {
	var v value
	copy(v[:], strconv.Itoa(i))
	return v
}

// stream is the keys of many reads, one behind the other: so a read's key comes
// without a cache miss of its own, as the key of a request just parsed does.
type stream string

func (s stream) key(i int) string {
	at := i % streamLen * keyLen
	return string(s[at : at+keyLen])
}

// newStream draws the keys of streamLen reads from n records.
func newStream(workload string, n int) stream {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() int { return r.IntN(n) }
	if workload == "zipf" {
		z := rand.NewZipf(r, 1.1, 1, uint64(n-1))
		draw = func() int { return int(z.Uint64()) }
	}
	b := make([]byte, 0, streamLen*keyLen)
	for range streamLen {
		b = appendKey(b, draw())
	}
	return stream(unsafe.String(&b[0], len(b)))
}
