package cosmos

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// hash is the hash of a partition key of version 2, two numbers for each level. A physical partition
// holds a range of them. Source: PartitionKeyHash.cs in
// https://github.com/Azure/azure-cosmos-dotnet-v3.
type hash [2 * maxLevels]uint64

// hashOf returns the hash of k's partition key.
func (d *Driver[T]) hashOf(k identity) (h hash) {
	var room [128]byte
	for i := range d.opts.PartitionKey {
		low, high := murmur3(append(append(append(room[:0], 8), k.partition[i]...), 0xff))
		h[2*i], h[2*i+1] = high&(1<<62-1), low
	}
	return h
}

func (h *hash) compare(other *hash) int { return slices.Compare(h[:], other[:]) }

// murmur3 is MurmurHash3_x64_128 with the seed 0. Source: https://github.com/aappleby/smhasher.
func murmur3(data []byte) (h1, h2 uint64) {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	length := uint64(len(data))
	var zeros [16]byte
	data = append(data, zeros[:-len(data)&15]...)
	for whole := int(length / 16); len(data) > 0; data = data[16:] {
		h1 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(data)*c1, 31) * c2
		k2 := bits.RotateLeft64(binary.LittleEndian.Uint64(data[8:])*c2, 33) * c1
		if whole--; whole < 0 { // the tail
			h2 ^= k2
			break
		}
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 = (bits.RotateLeft64(h2^k2, 31)+h1)*5 + 0x38495ab5
	}
	mix := func(k uint64) uint64 {
		k = (k ^ k>>33) * 0xff51afd7ed558ccd
		k = (k ^ k>>33) * 0xc4ceb9fe1a85ec53
		return k ^ k>>33
	}
	h1, h2 = h1^length, h2^length
	h1 += h2
	h2 += h1
	h1, h2 = mix(h1), mix(h2)
	h1 += h2
	return h1, h2 + h1
}

// ranges is what answers have told of where physical partitions lie: between two keys of one partition are no
// keys of another, until it is split.
type ranges struct {
	spans    []span // in the order in which the partitions became known
	unusable bool   // the container hashes keys in another way
}

// span is the part of a physical partition in which it has answered.
type span struct {
	part        string // the id of the partition key range
	first, last hash
	over        []int // the spans of partitions from which this one was split
}

// around appends the spans that have h to in.
func (r *ranges) around(h *hash, in []int) []int {
	for i := range r.spans {
		if s := &r.spans[i]; s.first.compare(h) <= 0 && s.last.compare(h) >= 0 {
			in = append(in, i)
		}
	}
	return in
}

// part returns the partition that has h. Of several that have answered around h, it is the one that was split
// from all the others; while no answer has shown that, the partition is not known.
func (r *ranges) part(h *hash) (id string, known bool) {
	var room [8]int
	in := r.around(h, room[:0])
	for _, i := range in {
		older := func(j int) bool { return j == i || slices.Contains(r.spans[i].over, j) }
		if !slices.ContainsFunc(in, func(j int) bool { return !older(j) }) {
			return r.spans[i].part, true
		}
	}
	return "", false
}

// learn notes that part has answered about h, to a request that was sent when the first known spans were known. It
// is newer than those of their partitions that had h: only then has the answer not come later than one of theirs.
func (r *ranges) learn(h *hash, part string, known int) {
	if r.unusable {
		return
	}
	at := 0
	for at < len(r.spans) && r.spans[at].part != part {
		at++
	}
	if at == len(r.spans) {
		r.spans = append(r.spans, span{part: part, first: *h, last: *h})
	}
	s := &r.spans[at]
	if h.compare(&s.first) < 0 {
		s.first = *h
	}
	if h.compare(&s.last) > 0 {
		s.last = *h
	}
	var room [8]int
	for _, i := range r.around(h, room[:0]) {
		switch {
		case i >= known || i == at || slices.Contains(s.over, i):
		case slices.Contains(r.spans[i].over, at):
			*r = ranges{unusable: true} // a partition that was split does not answer again
			return
		default:
			s.over = append(s.over, i)
		}
	}
}
