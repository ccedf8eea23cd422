package dynamodb

import (
	"errors"
	"hash/fnv"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// stored is what an item says of its record, as read and as it stands there.
type stored struct {
	driver.Meta
	expiry, created, version, retained types.AttributeValue // nil: absent

	heldUntil driver.Instant // the expiry that DynamoDB goes by, where it is not the record's; else zero
	odd       error          // what of it cannot be read, and is taken for absent
}

// read reads what item says of its record.
func (d *Driver[T]) read(item map[string]types.AttributeValue) stored {
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
	s.odd = errors.Join(errs[:]...)
	return s
}

// A driver.Version is the version attribute, and above it the format of created_at, which
// an overwrite keeps. The top bit is for versions that stand for an attribute of others.
const (
	formatShift                   = 61
	foreignVersion driver.Version = 1 << 63
	anyVersion     driver.Version = 1<<formatShift - 1
)

// marked is v with f for the format of created_at.
func marked(v driver.Version, f TimeFormat) driver.Version {
	return v&(foreignVersion|anyVersion) | driver.Version(f)<<formatShift
}

// formatOf is the format of the created_at beside v.
func formatOf(v driver.Version) TimeFormat { return TimeFormat(v &^ foreignVersion >> formatShift) }

// format is the one in which a write over the record was puts down life's created_at: as
// it was, or as configured for another.
func (d *Driver[T]) format(was driver.Meta, life driver.Life) TimeFormat {
	if life.CreatedAt == was.CreatedAt {
		return formatOf(was.Version)
	}
	return d.opts.CreatedAtFormat
}

// versionOf is the version attribute that v stands for, nil for none. One of others it
// cannot tell; the Number it gives for that is in no item.
func versionOf(v driver.Version) types.AttributeValue {
	if v &= foreignVersion | anyVersion; v != 0 {
		return number(strconv.FormatUint(uint64(v), 10))
	}
	return nil
}

// maxVersion keeps versions within what every language holds exactly.
const maxVersion driver.Version = 1 << 53

// parseVersion reads a version: zero if there is none, a positive whole Number itself, a
// hash of whatever else another program keeps there.
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
