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

	// unixSecond is read and kept, but never chosen. Its Numbers may have decimals.
	unixSecond
)

// Options adjusts a Driver. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// PartitionKey is the table's partition key. Empty Name: "pk", a String that
	// is the record's key as it is.
	PartitionKey KeyAttribute

	// SortKey is the table's sort key. Zero: the table has none.
	SortKey KeyAttribute

	// KeyOf returns the record's key for an item's partition key and sort key (empty: the table has
	// none), and false for an item that is no record. It is the inverse of PartitionKey.Of and
	// SortKey.Of, pure and safe for concurrent use. Scan, Dead and a Stream need it unless one of
	// the two attributes is the key itself or has a Prefix. Nil: the key is read from that one.
	KeyOf func(partition, sort string) (key string, ok bool)

	// Expiry, CreatedAt and Version name the attributes that the driver writes. The table's TTL
	// must be enabled on Expiry. No other program may use Version. Empty: "ttl", "created_at" and
	// "slidingttl_version". Tables created before slidingttl_version was the default must set
	// Version: "version".
	Expiry, CreatedAt, Version string

	// Retain is how long DynamoDB holds a record after its expiry, for a Store's History and for
	// walks over all records: the attribute Expiry is this much later, rounded up to a second, and
	// RetainedExpiry has the record's own. All calls use that, also those of drivers with another
	// Retain, once all have a version with this option. Zero: DynamoDB may delete records from
	// their expiry on.
	Retain time.Duration

	// RetainedExpiry names that attribute, a Map. All drivers on the table must use the same name,
	// and no other program may use it. Empty: "slidingttl_expiry".
	RetainedExpiry string

	// LifeTable is a second table, by its name or ARN, with the same key as the first, and for that one
	// alone: tables that share it end each other's lives. A touch writes a small item there and costs one write unit, whatever the size of the record's item. Its TTL must
	// be enabled on the attribute Expiry. Hold is required with it. See "Touches
	// that cost one unit" in the README, also for how to begin and end its use. Empty: none.
	LifeTable string

	// Hold is how long after its creation DynamoDB keeps an item whose life is in LifeTable, also when
	// the record has died before: at least the longest MaxLifetime, and Retain. A touch to a later
	// expiry works, and writes the record's item too. Check is not told MaxLifetime: it requires as much as one
	// write asks for, IdleGrace and the slack, and Retain.
	Hold time.Duration

	// LifeInValue has this driver read LifeTable, and write lives to the record's item as without it.
	// Set it in all processes while some have LifeTable and others do not.
	LifeInValue bool

	// Deletes makes Dead, and so a Stream, also return items that are deleted while alive, with
	// driver.Dead.Deleted. False: they are not reported.
	Deletes bool

	// CreatedAtFormat is how created_at is written for a new life. Zero: RFC3339.
	// UnixMilli suits a T, or another program, that maps it as a number.
	CreatedAtFormat TimeFormat

	// ConsistentRead makes reads strongly consistent, at twice the read capacity.
	// False: a read may miss a write of the last moments, of this program too. No
	// write depends on it, and a store reads again before it calls dead what another
	// read may just have touched (Latest).
	ConsistentRead bool

	// ScanIndex is a secondary index that Scan reads in place of the table, for instance one with
	// only the records, or with smaller items. It must project Expiry, CreatedAt, Version and
	// RetainedExpiry. A record without the index's key is not in it. Empty: none.
	ScanIndex string

	// ScanSizes makes Scan return each record's size, and whether it has room for what a touch
	// adds. It costs no more capacity, but transfers whole items. With ScanIndex, sizes are those
	// in the index.
	ScanSizes bool

	// Encoder and Decoder adjust how values are marshalled. Nil: attributevalue's
	// defaults.
	Encoder func(*attributevalue.EncoderOptions)
	Decoder func(*attributevalue.DecoderOptions)

	// MaxSkew is how far clocks may differ. Check reports a system clock that differs more from
	// DynamoDB's. A write over a record is given up when the record's life has ended, but not
	// before MaxSkew has passed. Zero: 1 s.
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
		if *n.name == doubtName || *n.name == formerName {
			return invalid(n.field, fmt.Sprintf("%q", *n.name), "must be another: the driver writes this attribute to Options.LifeTable")
		}
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
	case o.LifeTable == "" && (o.Hold != 0 || o.LifeInValue):
		return invalid("LifeTable", "empty", "is required with Options.Hold and LifeInValue")
	case o.LifeTable != "" && o.Hold <= 0:
		return invalid("Hold", o.Hold.String(), "must be positive with Options.LifeTable: at least the longest MaxLifetime, and Retain")
	case o.Retain < 0:
		return invalid("Retain", o.Retain.String(), "must not be negative")
	case o.MaxSkew < 0:
		return invalid("MaxSkew", o.MaxSkew.String(), "must not be negative")
	}
	o.MaxSkew = cmp.Or(o.MaxSkew, time.Second)
	return o, nil
}
