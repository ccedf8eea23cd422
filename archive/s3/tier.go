package s3

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Tier is a storage class for records that died at least so many days ago.
type Tier struct {
	Days  int
	Class types.StorageClass
}

// readable has the classes whose objects can be read without being restored first. Forget must
// be able to read and rewrite files at any time.
var readable = []types.StorageClass{
	types.StorageClassStandard, types.StorageClassStandardIa, types.StorageClassOnezoneIa,
	types.StorageClassIntelligentTiering, types.StorageClassGlacierIr,
}

// ParseTiers reads tiers from the form "30:STANDARD_IA,180:GLACIER_IR". Errors:
// *driver.InvalidError.
func ParseTiers(s string) (tiers []Tier, err error) {
	if s == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		var t Tier
		if _, err := fmt.Sscanf(part, "%d:%s", &t.Days, &t.Class); err != nil {
			return nil, &driver.InvalidError{Field: "tiers", Value: fmt.Sprintf("%q", part), Rule: `must have the form "30:STANDARD_IA"`}
		}
		tiers = append(tiers, t)
	}
	return tiers, checkTiers(tiers)
}

func checkTiers(tiers []Tier) error {
	last := 0
	for i, t := range tiers {
		field := fmt.Sprintf("Options.Tiers[%d]", i)
		if t.Days <= last {
			return &driver.InvalidError{Field: field + ".Days", Value: fmt.Sprint(t.Days), Rule: "must be positive, and more than those of the tier before"}
		}
		if !slices.Contains(readable, t.Class) {
			return &driver.InvalidError{Field: field + ".Class", Value: fmt.Sprintf("%q", t.Class), Rule: fmt.Sprintf("must be one that can be read immediately: %v", readable)}
		}
		last = t.Days
	}
	return nil
}

// class returns the storage class for a file, empty for the bucket's own.
func (b *Bucket) class(name string) (class types.StorageClass) {
	dir, base := path.Split(name)
	day, ok := strings.CutPrefix(dir, "day=")
	d, err := archive.ParseDay(strings.TrimSuffix(day, "/"))
	if !ok || err != nil || strings.HasSuffix(base, ".json") {
		return ""
	}
	age := int(archive.DayOf(driver.Floor(b.opts.Now())) - d)
	for _, t := range b.opts.Tiers {
		if age >= t.Days {
			class = t.Class
		}
	}
	return class
}

// moves reports whether a file in class is is due for another one.
func (b *Bucket) moves(name string, is types.ObjectStorageClass) bool {
	if is == "" {
		is = types.ObjectStorageClassStandard
	}
	class := b.class(name)
	return class != "" && string(class) != string(is)
}
