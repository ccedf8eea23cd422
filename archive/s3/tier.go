package s3

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// tier is a storage class for records that died at least so many days ago.
type tier struct {
	days  int
	class types.StorageClass
}

// readable has the classes whose objects can be read without being restored first. Forget must
// be able to read and rewrite files at any time.
var readable = []types.StorageClass{
	types.StorageClassStandard, types.StorageClassStandardIa, types.StorageClassOnezoneIa,
	types.StorageClassIntelligentTiering, types.StorageClassGlacierIr,
}

// parseTiers reads Options.Tiers.
func parseTiers(s string) (tiers []tier, err error) {
	if s == "" {
		return nil, nil
	}
	last := 0
	for part := range strings.SplitSeq(s, ",") {
		var t tier
		rule := ""
		if _, err := fmt.Sscanf(part, "%d:%s", &t.days, &t.class); err != nil {
			rule = `must have the form "30:STANDARD_IA"`
		} else if t.days <= last {
			rule = "must have positive days, and more than the tier before"
		} else if !slices.Contains(readable, t.class) {
			rule = fmt.Sprintf("must have a class that can be read immediately: %v", readable)
		}
		if rule != "" {
			return nil, &driver.InvalidError{Field: "Options.Tiers", Value: strconv.Quote(part), Rule: rule}
		}
		last = t.days
		tiers = append(tiers, t)
	}
	return tiers, nil
}

// class returns the storage class for a file, empty for the bucket's own.
func (b *bucket) class(name string) (class types.StorageClass) {
	dir, base := path.Split(name)
	day, ok := strings.CutPrefix(dir, "day=")
	var d archive.Day
	if !ok || d.UnmarshalText([]byte(strings.TrimSuffix(day, "/"))) != nil || strings.HasSuffix(base, ".json") {
		return ""
	}
	age := int(archive.DayOf(driver.Floor(b.opts.Now())) - d)
	for _, t := range b.tiers {
		if age >= t.days {
			class = t.class
		}
	}
	return class
}

// moves reports whether a file in class is is due for another one.
func (b *bucket) moves(name string, is types.ObjectStorageClass) bool {
	if is == "" {
		is = types.ObjectStorageClassStandard
	}
	class := b.class(name)
	return class != "" && string(class) != string(is)
}
