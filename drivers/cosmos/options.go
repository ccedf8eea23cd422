package cosmos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Options adjusts a Driver. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// PartitionKey is the container's partition key, with its levels if it is
	// hierarchical, up to three. Empty: one with the path "/id".
	PartitionKey []KeyProperty

	// ID computes an item's id from a record's key: [Prefix] or any pure function. Different keys
	// must give different items, by the id or the partition key. Nil: the record's key itself,
	// which then must have no character that an id cannot have.
	ID func(key string) string

	// KeyOf returns the record's key for an item's id and the properties of its partition key, in
	// their order, and false for an item that is no record. It is the inverse of ID and
	// KeyProperty.Of, pure and safe for concurrent use. Scans need it unless the id or one of these
	// properties is the key itself or has a Prefix. Nil: the key is read from that one.
	KeyOf func(id string, partition []string) (key string, ok bool)

	// CreatedAt, ExpiresAt and Version name the properties that the driver writes
	// beside ttl. Version must be one that no other program uses. Empty: "created_at",
	// "expires_at" and "slidingttl_version".
	CreatedAt, ExpiresAt, Version string

	// Retain is how long Cosmos DB holds a record after its expiry, for a Store's History and for
	// walks over all records: ttl is this much longer, and expires_at is not. All calls use
	// expires_at, and so do drivers with another Retain, of any version. Zero: MaxSkew alone.
	Retain time.Duration

	// Codec encodes values, to JSON objects, and decodes them. Nil: encoding/json. Cosmos DB keeps numbers as
	// float64, so a value with one that comes back as another decimal is a
	// *driver.InvalidError: encode it as a string.
	Codec driver.Codec

	// Retry configures how a write is resent that Cosmos DB did not execute: throttled (429), or
	// met by another write (449) or a split (410). Other writes are not resent. The client's own
	// Retry, which a driver cannot read, applies only to reads other than Latest. StatusCodes and ShouldRetry are
	// ignored. Zero fields: azcore's defaults, and a RetryDelay of 50 ms.
	Retry policy.RetryOptions

	// MaxSkew is how far clocks may differ. Cosmos DB removes an item only MaxSkew after its expiry
	// and Retain, for readers whose clocks are behind. Check reports a system clock that differs
	// more from the service's. A write over a record is given up when the record's life has ended,
	// but not before MaxSkew has passed. Zero: 1 s.
	MaxSkew time.Duration
}

// ttlName is the property of Cosmos DB's expiry. It cannot be renamed.
const ttlName = "ttl"

// systemNames are the properties that Cosmos DB adds.
var systemNames = []string{"_rid", "_self", "_etag", "_attachments", "_ts"}

// validate returns o with its defaults filled in.
func (o Options) validate() (Options, error) {
	invalid := func(field, value, rule string) (Options, error) {
		return o, &driver.InvalidError{Field: "Options." + field, Value: value, Rule: rule}
	}
	if len(o.PartitionKey) == 0 {
		o.PartitionKey = []KeyProperty{{Path: idPath}}
	}
	if len(o.PartitionKey) > maxLevels {
		return invalid("PartitionKey", fmt.Sprintf("%d properties", len(o.PartitionKey)), fmt.Sprintf("must be at most %d", maxLevels))
	}
	o.PartitionKey = slices.Clone(o.PartitionKey)
	taken := append([]string{"id", ttlName}, systemNames...)
	var roots []string // the properties that hold the partition key
	for i, p := range o.PartitionKey {
		field := fmt.Sprintf("PartitionKey[%d].", i)
		names := strings.Split(p.Path, "/")
		switch {
		case len(names) < 2 || names[0] != "" || slices.Contains(names[1:], ""):
			return invalid(field+"Path", fmt.Sprintf("%q", p.Path), `must be a path as the container defines it, such as "/tenant" or "/owner/id"`)
		case slices.ContainsFunc(names, func(name string) bool { return strings.Trim(name, `"' `) != name }):
			// The official clients take the quotes off a name, and the spaces.
			return invalid(field+"Path", fmt.Sprintf("%q", p.Path), "must be without quotes and spaces around its names")
		case p.Path == idPath && p.Of != nil:
			return invalid(field+"Of", "a function", "must be nil for /id, which Options.ID computes")
		case p.Path != idPath && slices.Contains(taken, names[1]),
			slices.ContainsFunc(o.PartitionKey[:i], func(q KeyProperty) bool { return overlap(p.Path, q.Path) }):
			return invalid(field+"Path", fmt.Sprintf("%q", p.Path), "must be a property of its own")
		}
		roots = append(roots, names[1])
	}
	taken = append(taken, roots...)
	for _, n := range []struct {
		field string
		name  *string
		empty string
	}{
		{"CreatedAt", &o.CreatedAt, "created_at"},
		{"ExpiresAt", &o.ExpiresAt, "expires_at"},
		{"Version", &o.Version, "slidingttl_version"},
	} {
		*n.name = cmp.Or(*n.name, n.empty)
		switch {
		case strings.Trim(*n.name, plainName) != "":
			// azcosmos writes conditions into JSON unescaped.
			return invalid(n.field, fmt.Sprintf("%q", *n.name), "must have letters, digits, _ and - only")
		case slices.Contains(taken, *n.name):
			return invalid(n.field, fmt.Sprintf("%q", *n.name), "must be a property of its own")
		}
		taken = append(taken, *n.name)
	}
	if o.Retain < 0 {
		return invalid("Retain", o.Retain.String(), "must not be negative")
	}
	if o.MaxSkew < 0 {
		return invalid("MaxSkew", o.MaxSkew.String(), "must not be negative")
	}
	o.MaxSkew = cmp.Or(o.MaxSkew, time.Second)
	o.Retry.RetryDelay = cmp.Or(o.Retry.RetryDelay, 50*time.Millisecond)
	if o.Codec == nil {
		o.Codec = kit.JSON{}
	}
	return o, nil
}

// overlap reports whether two paths are the same, or one is below the other.
func overlap(a, b string) bool {
	return strings.HasPrefix(a+"/", b+"/") || strings.HasPrefix(b+"/", a+"/")
}

const plainName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
