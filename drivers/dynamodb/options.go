package dynamodb

import (
	"cmp"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TimeFormat is how created_at is written for a new life. All of them are read, as are
// seconds, and an overwrite in the same life keeps the format it finds.
type TimeFormat int

const (
	// RFC3339 writes a String, "2006-01-02T15:04:05.000Z", always in UTC and with
	// three decimals, so that strings sort as the instants do.
	RFC3339 TimeFormat = iota

	// UnixMilli writes a Number of milliseconds since the Unix epoch.
	UnixMilli

	// unixSecond is only met with. Some of its Numbers have decimals.
	unixSecond
)

// Options adjusts a Driver. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// PartitionKey is the table's partition key. Empty Name: "pk", a String that
	// is the record's key as it is.
	PartitionKey KeyAttribute

	// SortKey is the table's sort key. Zero: the table has none.
	SortKey KeyAttribute

	// Expiry, CreatedAt and Version name the attributes that the driver writes.
	// Expiry is the one that the table's TTL is enabled on. Version must be one that
	// no other program uses. Empty: "ttl", "created_at" and "slidingttl_version".
	// Tables written before the last had that name go on with "version".
	Expiry, CreatedAt, Version string

	// Retain is how long DynamoDB is to hold a record after its expiry, for a Store's
	// History and for what goes through all records: Expiry is then later by as much,
	// rounded up to a second, and the record's own expiry stands in RetainedExpiry. All
	// calls go by that, those of drivers with another Retain too, once each of them is of
	// a version that has this option. Zero: what DynamoDB deletes is up to it.
	Retain time.Duration

	// RetainedExpiry names the attribute for that, a Map. Every driver over the table must
	// have the same, and no other program use it. Empty: "slidingttl_expiry".
	RetainedExpiry string

	// Deletes has Dead, and so a Stream, tell of items that are deleted while they live, with
	// driver.Dead.Deleted. False: they end without a word, like those of other drivers.
	Deletes bool

	// CreatedAtFormat is how created_at is written for a new life. Zero: RFC3339.
	// UnixMilli suits a T, or another program, that maps it as a number.
	CreatedAtFormat TimeFormat

	// ConsistentRead makes reads strongly consistent, at twice the read capacity.
	// False: a read may miss a write of the last moments, of this program too. No
	// write depends on it, and a store reads again before it calls dead what another
	// read may just have touched (Latest).
	ConsistentRead bool

	// ScanIndex is a secondary index for Scan to go through in place of the table, for
	// one that holds the records alone, or less of each. It must project Expiry,
	// CreatedAt, Version and RetainedExpiry. A record without the index's key is not in it. Empty: none.
	ScanIndex string

	// ScanSizes has Scan tell how large each record is, and which of them has no room for
	// what a touch adds. It costs no more capacity, but all of each item comes over the
	// network. With ScanIndex sizes are those of the index.
	ScanSizes bool

	// Encoder and Decoder adjust how values are marshalled. Nil: attributevalue's
	// defaults.
	Encoder func(*attributevalue.EncoderOptions)
	Decoder func(*attributevalue.DecoderOptions)

	// MaxSkew is by how much clocks may be apart. Check reports a system's clock that
	// is further off DynamoDB's. A write over a record is given up when the record's
	// life has ended, but not before MaxSkew has passed. Zero: 1 s.
	MaxSkew time.Duration
}

// validate returns o with its defaults filled in.
func (o Options) validate() (Options, error) {
	invalid := func(field, value, rule string) (Options, error) {
		return o, &driver.InvalidError{Field: "Options." + field, Value: value, Rule: rule}
	}
	names := []struct {
		field string
		name  *string
		empty string
	}{
		{"PartitionKey.Name", &o.PartitionKey.Name, "pk"},
		{"SortKey.Name", &o.SortKey.Name, ""},
		{"Expiry", &o.Expiry, "ttl"},
		{"CreatedAt", &o.CreatedAt, "created_at"},
		{"Version", &o.Version, "slidingttl_version"},
		{"RetainedExpiry", &o.RetainedExpiry, "slidingttl_expiry"},
	}
	for i, n := range names {
		*n.name = cmp.Or(*n.name, n.empty)
		for _, other := range names[:i] {
			if *n.name != "" && *n.name == *other.name {
				return invalid(n.field, fmt.Sprintf("%q", *n.name), "must differ from Options."+other.field)
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
	case o.Retain < 0:
		return invalid("Retain", o.Retain.String(), "must not be negative")
	case o.MaxSkew < 0:
		return invalid("MaxSkew", o.MaxSkew.String(), "must not be negative")
	}
	o.MaxSkew = cmp.Or(o.MaxSkew, time.Second)
	return o, nil
}
