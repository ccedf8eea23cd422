package dynamodb

import (
	"errors"
	"hash/fnv"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// stored is an item's record, parsed and as raw attributes.
type stored struct {
	driver.Meta
	expiry, created, version, retained types.AttributeValue // nil: absent

	heldUntil  driver.Instant // the item's ttl if it differs from the record's expiry, else zero
	generation generation     // of an item whose life may be in Options.LifeTable, else zero
	life       lifeItem       // the item in that table, if it was read
	unseen     error          // of an item whose life may be in a table that was not read
	odd        error          // error of the attributes that cannot be read and count as absent
}

// read parses an item.
func (d *core) read(item map[string]types.AttributeValue) stored {
	o := &d.opts
	s := stored{expiry: item[o.Expiry], created: item[o.CreatedAt], version: item[o.Version], retained: item[o.RetainedExpiry]}
	var format TimeFormat
	var errs [4]error
	s.CreatedAt, format, errs[0] = parseCreated(o.CreatedAt, s.created)
	s.ExpiresAt, errs[1] = parseExpiry(o.Expiry, s.expiry)
	s.Version, errs[2] = parseVersion(o.Version, s.version)
	at, err := parseRetained(o.RetainedExpiry, s.retained, s.expiry)
	if errs[3] = err; at != 0 {
		s.ExpiresAt, s.heldUntil = at, s.ExpiresAt
	}
	s.Version = marked(s.Version, format)
	if s.heldUntil != 0 {
		errs[3] = errors.Join(err, d.readApart(&s))
	}
	s.odd = errors.Join(errs[:]...)
	return s
}

// A driver.Version holds the version attribute and, in higher bits, the format of created_at, which
// an overwrite keeps, and whether the record's life may be in Options.LifeTable. The top bit marks a
// hash of another program's attribute.
const (
	formatShift                   = 59
	formatBits     driver.Version = 3 << formatShift
	heldAsUsual    driver.Version = 1 << 61 // the life is apart, and held until exactly Options.Hold after created_at
	apartBit       driver.Version = 1 << 62 // the life may be in Options.LifeTable
	foreignVersion driver.Version = 1 << 63
	anyVersion     driver.Version = 1<<formatShift - 1
)

// marked sets the format of created_at in v.
func marked(v driver.Version, f TimeFormat) driver.Version {
	return v&^formatBits | driver.Version(f)<<formatShift
}

// formatOf returns the format of created_at in v.
func formatOf(v driver.Version) TimeFormat { return TimeFormat(v & formatBits >> formatShift) }

// format returns the format of life's created_at in a write over was: unchanged for the same
// created_at, else as configured.
func (d *core) format(was driver.Meta, life driver.Life) TimeFormat {
	if life.CreatedAt == was.CreatedAt {
		return formatOf(was.Version)
	}
	return d.opts.CreatedAtFormat
}

// versionOf returns the version attribute for v, nil for none. For a hash of another program's
// attribute it returns a Number that no item has.
func versionOf(v driver.Version) types.AttributeValue {
	if v &= foreignVersion | anyVersion; v != 0 {
		return number(strconv.FormatUint(uint64(v), 10))
	}
	return nil
}

// maxVersion keeps versions exact in languages whose numbers are float64.
const maxVersion driver.Version = 1 << 53

// parseVersion reads a version: zero for none, a positive whole Number as it is, a hash of anything
// else.
func parseVersion(name string, av types.AttributeValue) (driver.Version, error) {
	kind := ""
	switch av := av.(type) {
	case nil, *types.AttributeValueMemberNULL:
		return 0, nil
	case *types.AttributeValueMemberN:
		if v, err := strconv.ParseUint(av.Value, 10, formatShift); err == nil && v > 0 {
			return driver.Version(v), nil
		}
		kind = "N"
	case *types.AttributeValueMemberS:
		kind = "S"
	case *types.AttributeValueMemberB:
		kind = "B"
	default:
		return 0, odd(name, av, "must be a Number, a String or Binary")
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind + plain(av)))
	return foreignVersion | driver.Version(h.Sum64())&anyVersion, nil
}
