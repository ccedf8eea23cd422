package cosmos

import (
	"fmt"
	"math"

	"github.com/tidwall/gjson"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// latest is the last instant that can be written, in the year 9999.
	latest driver.Instant = 253402300799999

	// maxTTL is Cosmos DB's limit, of 68 years.
	maxTTL = math.MaxInt32
)

// written formats i.
func written(i driver.Instant) string { return i.Time().Format(kit.RFC3339Milli) }

// ttl returns the ttl to write with l by a call that began at now. The service must not remove the
// item before expiry, Retain and MaxSkew have passed. It counts from the second, rounded down, of
// the write, which is at now or later. -1 means never, also for an expiry beyond maxTTL.
func (o *Options) ttl(l driver.Life, now driver.Instant) int64 {
	if l.ExpiresAt == 0 {
		return -1
	}
	left := l.ExpiresAt.Add(o.Retain).Add(o.MaxSkew).Sub(now)
	seconds := max(int64(math.Ceil(left.Seconds()))+1, 1)
	if seconds > maxTTL {
		return -1
	}
	return seconds
}

// parseInstant reads RFC 3339 in any zone, or a Number of seconds or milliseconds; zero: none. It
// rounds to milliseconds, up or down.
func parseInstant(name string, v gjson.Result, up bool) (driver.Instant, error) {
	switch v.Type {
	case gjson.Null: // also if absent
		return 0, nil
	case gjson.String:
		if v.Str == "" {
			return 0, nil
		}
		if i, ok := kit.ParseTime(v.Str, up); ok {
			return i, nil
		}
	case gjson.Number:
		if i, _, finer, ok := kit.ParseNumber(v.String()); ok && finer && up {
			return i + 1, nil
		} else if ok {
			return i, nil
		}
	}
	return 0, kit.Odd(fmt.Sprintf("property %q", name), v.Type.String(), v.String(), "must be RFC 3339, or a Number of seconds or milliseconds since the Unix epoch")
}
