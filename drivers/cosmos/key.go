package cosmos

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// KeyProperty is one property of a container's partition key, a String.
type KeyProperty struct {
	// Path is the property's path, as in the container's definition: "/tenant". For a path of
	// several names, "/owner/id", the value must contain the property, with what Of returns. Paths
	// with names in quotes are not supported.
	Path string

	// Of computes the property from a record's key: [Fixed], [Prefix] or any pure function. Nil:
	// the record's key itself; for "/id" the item's id.
	Of func(key string) string
}

// Fixed is a KeyProperty.Of that returns the same for every record: "sessions".
func Fixed(value string) func(key string) string {
	return func(string) string { return value }
}

// Prefix is a KeyProperty.Of or an Options.ID that puts prefix before the record's key:
// "session:".
//
//go:noinline
func Prefix(prefix string) func(key string) string {
	return func(key string) string { return prefix + key }
}

// Cosmos DB's limits. Source: https://learn.microsoft.com/azure/cosmos-db/concepts-limits
const (
	maxID           = 1023 // bytes
	maxPartitionKey = 2048 // bytes
	maxLevels       = 3
	forbidden       = `/\?#`

	idPath = "/id"
)

// identity is an item's id and partition key.
type identity struct {
	id        string
	partition [maxLevels]string
}

// place computes the identity of a record's item, and does not check it.
func (d *Driver[T]) place(key string) identity {
	k := identity{id: key}
	if d.opts.ID != nil {
		k.id = d.opts.ID(key)
	}
	for i, p := range d.opts.PartitionKey {
		switch {
		case p.Path == idPath:
			k.partition[i] = k.id
		case p.Of != nil:
			k.partition[i] = p.Of(key)
		default:
			k.partition[i] = key
		}
	}
	return k
}

// identity computes the identity of a record's item.
func (d *Driver[T]) identity(key string) (identity, error) {
	if key == "" {
		return identity{}, driver.CheckKey(key, 0)
	}
	k := d.place(key)
	if err := checkID(k.id); err != nil {
		return k, err
	}
	for _, value := range k.partition[:len(d.opts.PartitionKey)] {
		if !utf8.ValidString(value) {
			return k, invalidKey("not UTF-8", "must be valid UTF-8")
		}
		if len(value) > maxPartitionKey {
			return k, driver.CheckKey(value, maxPartitionKey)
		}
	}
	return k, nil
}

func invalidKey(value, rule string) error {
	return &driver.InvalidError{Field: "key", Value: value, Rule: rule}
}

// checkID checks that Cosmos DB takes id, and that no client or proxy misreads it as part of a URL.
// Its error does not quote id.
func checkID(id string) error {
	switch {
	case !utf8.ValidString(id):
		return invalidKey("not UTF-8", "must be valid UTF-8")
	case strings.ContainsAny(id, forbidden):
		return invalidKey("with a forbidden character", `must have none of / \ ? # as an item's id, or Options.ID must encode them`)
	case strings.ContainsFunc(id, unicode.IsControl):
		return invalidKey("with a control character", "must have none as an item's id, or Options.ID must encode them")
	case strings.HasSuffix(id, " "):
		return invalidKey("with a space at the end", "must have none there as an item's id")
	case id == "." || id == "..":
		return invalidKey("dots", "must not be . or .., which have another meaning in a URL")
	}
	return driver.CheckKey(id, maxID)
}

// partitionKey returns k's partition key in azcosmos's type.
func (d *Driver[T]) partitionKey(k identity) azcosmos.PartitionKey {
	if len(d.opts.PartitionKey) == 1 {
		return azcosmos.NewPartitionKeyString(k.partition[0])
	}
	pk := azcosmos.NewPartitionKey()
	for _, value := range k.partition[:len(d.opts.PartitionKey)] {
		pk = pk.AppendString(value)
	}
	return pk
}

// withKey corrects the partition key header of azcosmos 1.5.0, which quotes strings as Go does: for
// characters above U+FFFF and some control characters that is not JSON.
func (d *Driver[T]) withKey(ctx context.Context, k identity) context.Context {
	values := k.partition[:len(d.opts.PartitionKey)]
	plain := func(r rune) bool { return r >= ' ' && r <= 0xffff && r != 0x7f }
	for _, value := range values {
		if strings.ContainsFunc(value, func(r rune) bool { return !plain(r) }) {
			text, _ := json.Marshal(slices.Clone(values)) // cannot fail for strings; values itself would always be allocated
			return policy.WithHTTPHeader(ctx, http.Header{"X-Ms-Documentdb-Partitionkey": {ascii(text)}})
		}
	}
	return ctx
}

// ascii is JSON with all but ASCII escaped, for a header.
func ascii(text []byte) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, r := range string(text) {
		if r < 0x7f {
			b.WriteRune(r)
			continue
		}
		units := []rune{r}
		if hi, lo := utf16.EncodeRune(r); hi != unicode.ReplacementChar {
			units = []rune{hi, lo}
		}
		for _, u := range units {
			b.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte(digits[u>>shift&0xf])
			}
		}
	}
	return b.String()
}
