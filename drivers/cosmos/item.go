package cosmos

import (
	"errors"
	"hash/fnv"
	"math"

	"github.com/tidwall/gjson"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// stored is a record as read from its item.
type stored struct {
	driver.Meta
	etag    string
	removed driver.Instant // when the item's ttl removes it; zero: no ttl of its own

	odd error // error of the fields that cannot be read and count as absent
}

// still is kit.Still, or Unreadable if s has a field that cannot be read.
func (s stored) still(was driver.Meta, now driver.Instant) kit.Verdict {
	v := kit.Still(s.Meta, was, now)
	if v == kit.Meant && s.odd != nil {
		return kit.Unreadable
	}
	return v
}

// read reads an item's record.
func (d *Driver[T]) read(item gjson.Result) stored {
	o := &d.opts
	var created, expires, version, ttl, ts gjson.Result
	var s stored
	item.ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case o.CreatedAt:
			created = value
		case o.ExpiresAt:
			expires = value
		case o.Version:
			version = value
		case ttlName:
			ttl = value
		case "_ts":
			ts = value
		case "_etag":
			s.etag = value.Str
		}
		return true
	})
	var errs [2]error
	s.CreatedAt, errs[0] = parseInstant(o.CreatedAt, created, false)
	s.ExpiresAt, errs[1] = parseInstant(o.ExpiresAt, expires, true)
	s.odd = errors.Join(errs[:]...)
	if ttl.Type == gjson.Number && ttl.Num >= 1 && ttl.Num <= maxTTL && ttl.Num == math.Trunc(ttl.Num) {
		s.removed = driver.Instant(ts.Num+ttl.Num) * 1000
	}
	if s.ExpiresAt == 0 && s.odd == nil {
		s.ExpiresAt = s.removed
	}
	s.Version = versionOf(version, s.etag)
	return s
}

// maxVersion keeps versions exact in languages whose numbers are float64.
const maxVersion driver.Version = 1 << 53

// foreign marks the version of an item without one; the rest is a hash of its _etag.
const foreign driver.Version = 1 << 63

// versionOf reads a version.
func versionOf(v gjson.Result, etag string) driver.Version {
	if v.Type == gjson.Number && v.Num >= 1 && v.Num <= float64(maxVersion) && v.Num == math.Trunc(v.Num) {
		return driver.Version(v.Num)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(etag))
	return foreign | driver.Version(h.Sum64())
}
