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

func (h hash) compare(other hash) int { return slices.Compare(h[:], other[:]) }

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

// ranges is what answers have told of where physical partitions lie: between two keys of one
// partition are no keys of another, until it is split.
type ranges struct {
	known    []span          // in order
	split    map[string]bool // ids of partitions in whose range another was found
	unusable bool            // the container hashes keys in another way
}

type span struct {
	first, last hash
	part        string // the id of the partition key range
}

// search returns the span that has h, or the index where it would be.
func (r *ranges) search(h hash) (i int, found bool) {
	return slices.BinarySearchFunc(r.known, h, func(s span, h hash) int {
		if s.last.compare(h) < 0 {
			return -1
		}
		return max(s.first.compare(h), 0)
	})
}

// learn notes that h is in part.
func (r *ranges) learn(h hash, part string) {
	i, found := r.search(h)
	if r.unusable || found && r.known[i].part == part {
		return
	}
	if found {
		if r.split == nil {
			r.split = make(map[string]bool)
		}
		r.split[r.known[i].part] = true
		r.known = slices.Delete(r.known, i, i+1)
	}
	switch {
	case i > 0 && r.known[i-1].part == part:
		r.known[i-1].last = h
	case i < len(r.known) && r.known[i].part == part:
		r.known[i].first = h
	case r.split[part] || slices.ContainsFunc(r.known, func(s span) bool { return s.part == part }):
		*r = ranges{unusable: true} // ids are not used again
	default:
		r.known = slices.Insert(r.known, i, span{h, h, part})
	}
}
