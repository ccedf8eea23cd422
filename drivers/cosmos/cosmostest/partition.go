package cosmostest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
)

// partition is a physical partition: the partition keys whose hashes lie in a range.
type partition struct {
	id       string
	from, to string   // the range, to excluded
	parents  []string // the partitions it was split from, oldest first
	since    uint64   // the version of the container's ranges that it came with
	lsn      uint64   // of the last write
}

// hashes is the number of values of the first four hexadecimal digits of a partition key's
// hash: the service leaves two bits out.
const hashes = 0x4000

// bound is a hash between physical partitions.
func bound(n int) string {
	switch n {
	case 0:
		return ""
	case hashes:
		return "FF"
	}
	return fmt.Sprintf("%04X", n)
}

func boundNumber(text string) int {
	if text == "FF" {
		return hashes
	}
	n, _ := strconv.ParseUint(text, 16, 32) // "" is 0
	return int(n)
}

// divide returns count physical partitions of equal width in from..to, which replace p.
func (n *container) divide(count int, p partition) {
	from, to := boundNumber(p.from), boundNumber(p.to)
	if p.id != "" {
		p.parents = append(slices.Clip(p.parents), p.id)
	}
	p.since = n.rangesVersion
	for i := range count {
		part := p
		part.id = strconv.Itoa(n.lastRange)
		part.from, part.to = bound(from+(to-from)*i/count), bound(from+(to-from)*(i+1)/count)
		n.partitions = append(n.partitions, &part)
		n.lastRange++
	}
}

// Split splits each physical partition of every container in two. The service does that
// with a partition that has become too large. A query for a partition that no longer exists is
// answered with 410 and sub-status 1002; [Fault] can give the 1007 of a split that is under way.
// Containers whose partition keys are not of version 2 are not split.
func (a *Account) Split() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, db := range a.databases {
		for _, n := range db.containers {
			if n.keyVersion != 2 {
				continue
			}
			n.rangesVersion++
			old := n.partitions
			n.partitions = nil
			for _, p := range old {
				n.divide(2, *p)
			}
		}
	}
}

// at returns the physical partition of a hash.
func (n *container) at(hash string) *partition {
	for _, p := range n.partitions {
		if hash < p.to {
			return p
		}
	}
	return n.partitions[len(n.partitions)-1]
}

// partitionRange is a physical partition as clients read of it.
type partitionRange struct {
	ID      string   `json:"id"`
	RID     string   `json:"_rid"`
	From    string   `json:"minInclusive"`
	To      string   `json:"maxExclusive"`
	Parents []string `json:"parents"`
	Status  string   `json:"status"`
}

// ranges lists the physical partitions, or, as a feed, those newer than the version that the
// client knows.
func (n *container) ranges(c *call) answer {
	etag := strconv.Quote(strconv.FormatUint(n.rangesVersion, 10))
	header := map[string]string{"etag": etag}
	known := c.header.Get("If-None-Match")
	if known == etag {
		return answer{status: http.StatusNotModified, header: header}
	}
	var since uint64
	if c.header.Get("A-IM") != "" {
		text, _ := strconv.Unquote(known)
		since, _ = strconv.ParseUint(text, 10, 64)
	}
	var list []partitionRange
	for _, p := range n.partitions {
		if p.since > since {
			list = append(list, partitionRange{p.id, n.rid, p.from, p.to, append([]string{}, p.parents...), "online"})
		}
	}
	body, _ := json.Marshal(map[string]any{"_rid": n.rid, "_count": len(list), "PartitionKeyRanges": list})
	return answer{status: http.StatusOK, body: body, header: header}
}

// hashOf returns the hash of a partition key of version 2, which determines its physical
// partition. For a hierarchical key it has a part for each level. Source: PartitionKeyHash.cs in
// https://github.com/Azure/azure-cosmos-dotnet-v3.
func (n *container) hashOf(key []any) string {
	text := ""
	for _, value := range key {
		var b []byte
		switch value := value.(type) {
		case nil:
			b = []byte{1}
		case bool:
			b = []byte{2}
			if value {
				b[0] = 3
			}
		case float64:
			b = binary.LittleEndian.AppendUint64([]byte{5}, math.Float64bits(value))
		case string:
			b = append(append([]byte{8}, value...), 0xff)
		default: // a missing value
			b = []byte{0}
		}
		low, high := murmur3(b)
		text += fmt.Sprintf("%016X%016X", high&(1<<62-1), low)
	}
	return text
}

// murmur3 is MurmurHash3_x64_128 with the seed 0. Source: https://github.com/aappleby/smhasher.
func murmur3(data []byte) (h1, h2 uint64) {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	first := func(k uint64) uint64 { return bits.RotateLeft64(k*c1, 31) * c2 }
	second := func(k uint64) uint64 { return bits.RotateLeft64(k*c2, 33) * c1 }
	length := uint64(len(data))
	for ; len(data) >= 16; data = data[16:] {
		h1 ^= first(binary.LittleEndian.Uint64(data))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= second(binary.LittleEndian.Uint64(data[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	var tail [16]byte
	copy(tail[:], data)
	h1 ^= first(binary.LittleEndian.Uint64(tail[:])) ^ length
	h2 ^= second(binary.LittleEndian.Uint64(tail[8:])) ^ length
	h1 += h2
	h2 += h1
	mix := func(k uint64) uint64 {
		k = (k ^ k>>33) * 0xff51afd7ed558ccd
		k = (k ^ k>>33) * 0xc4ceb9fe1a85ec53
		return k ^ k>>33
	}
	h1, h2 = mix(h1), mix(h2)
	h1 += h2
	return h1, h2 + h1
}
