package dynamodb

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TimeFormat is how created_at is written. All of them are read.
type TimeFormat int

const (
	// RFC3339 writes a String, "2006-01-02T15:04:05.000Z", always in UTC and with
	// three decimals, so that strings sort as the instants do.
	RFC3339 TimeFormat = iota

	// UnixMilli writes a Number of milliseconds since the Unix epoch.
	UnixMilli
)

// Options adjusts a Driver. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// PartitionKey is the table's partition key. Empty Name: "pk", a String that
	// is the record's key as it is.
	PartitionKey KeyAttribute

	// SortKey is the table's sort key. Zero: the table has none.
	SortKey KeyAttribute

	// Expiry, CreatedAt and Version name the attributes that the driver writes.
	// Expiry is the one that the table's TTL is enabled on. Empty: "ttl",
	// "created_at" and "version".
	Expiry, CreatedAt, Version string

	// CreatedAtFormat is how created_at is written. Zero: RFC3339. UnixMilli suits
	// a T, or another program, that maps it as a number.
	CreatedAtFormat TimeFormat

	// ConsistentRead makes reads strongly consistent, at twice the read capacity.
	// False: a read may miss a write of the last moments, of this program too. No
	// write depends on it.
	ConsistentRead bool

	// Repair mends items whose expiry DynamoDB ignores: the first read of one that
	// holds it as a String (of digits, or RFC 3339), or in milliseconds, rewrites
	// it as a Number of seconds that means the same, with a request of its own, and
	// writes understand it. A repair that fails is counted, and tried again on the
	// next read. False: such an item is an error.
	Repair bool

	// Encoder and Decoder adjust how values are marshalled. Nil: attributevalue's
	// defaults.
	Encoder func(*attributevalue.EncoderOptions)
	Decoder func(*attributevalue.DecoderOptions)

	// Capacity asks DynamoDB what each request consumed and sums it in Stats.
	Capacity bool

	// MaxSkew is by how much the system's clock may be off DynamoDB's before Check
	// reports it. Zero: 1 s. It is known to a fraction of a second at best.
	MaxSkew time.Duration
}

const defaultMaxSkew = time.Second

// maxName is DynamoDB's limit on the name of an attribute, in bytes. It allows more
// for those that are part of no key, and charges for them.
const maxName = 255

// validate returns o with its defaults filled in.
func (o Options) validate() (Options, error) {
	invalid := func(field, value, rule string) (Options, error) {
		return o, &driver.InvalidError{Field: "Options." + field, Value: value, Rule: rule}
	}
	for _, f := range []struct {
		name *string
		def  string
	}{{&o.PartitionKey.Name, "pk"}, {&o.Expiry, "ttl"}, {&o.CreatedAt, "created_at"}, {&o.Version, "version"}} {
		if *f.name == "" {
			*f.name = f.def
		}
	}
	names := []struct{ field, name string }{
		{"PartitionKey.Name", o.PartitionKey.Name},
		{"SortKey.Name", o.SortKey.Name},
		{"Expiry", o.Expiry},
		{"CreatedAt", o.CreatedAt},
		{"Version", o.Version},
	}
	for i, n := range names {
		if len(n.name) > maxName {
			return invalid(n.field, fmt.Sprintf("%d bytes", len(n.name)), fmt.Sprintf("must be at most %d bytes", maxName))
		}
		for _, other := range names[:i] {
			if n.name != "" && n.name == other.name {
				return invalid(n.field, fmt.Sprintf("%q", n.name), "must differ from Options."+other.field)
			}
		}
	}
	for _, k := range []struct {
		field string
		key   *KeyAttribute
	}{{"PartitionKey", &o.PartitionKey}, {"SortKey", &o.SortKey}} {
		switch k.key.Type {
		case "":
			k.key.Type = types.ScalarAttributeTypeS
		case types.ScalarAttributeTypeS, types.ScalarAttributeTypeN, types.ScalarAttributeTypeB:
		default:
			return invalid(k.field+".Type", fmt.Sprintf("%q", k.key.Type), "must be S, N or B")
		}
	}
	switch {
	case o.SortKey.Name != "" && o.SortKey.Of == nil:
		return invalid("SortKey.Of", "nil", "is required where the table has a sort key: Fixed, Prefix or a function")
	case o.SortKey.Name == "" && o.SortKey.Of != nil:
		return invalid("SortKey.Name", "empty", "is required where SortKey.Of is set")
	case o.CreatedAtFormat != RFC3339 && o.CreatedAtFormat != UnixMilli:
		return invalid("CreatedAtFormat", fmt.Sprint(int(o.CreatedAtFormat)), "must be RFC3339 or UnixMilli")
	case o.MaxSkew < 0:
		return invalid("MaxSkew", o.MaxSkew.String(), "must not be negative")
	}
	if o.MaxSkew == 0 {
		o.MaxSkew = defaultMaxSkew
	}
	return o, nil
}
