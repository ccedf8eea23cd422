package policy

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

var errDuration = errors.New("not a duration")

// ParseDuration is [time.ParseDuration] with whole days of 24 hours before: "30d", "1d12h".
func ParseDuration(s string) (time.Duration, error) {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || n > uint64(math.MaxInt64/day) {
		return 0, errDuration
	}
	d := time.Duration(n) * day
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || rest[0] == '-' || rest[0] == '+' || more > math.MaxInt64-d {
		return 0, errDuration
	}
	return d + more, nil
}

// FormatDuration returns d as text that ParseDuration reads. It uses whole days as far as d has
// them, and leaves out trailing units that are zero.
func FormatDuration(d time.Duration) string {
	days := d / day
	if days > 0 {
		s := strconv.FormatInt(int64(days), 10) + "d"
		if d -= days * day; d == 0 {
			return s
		}
		return s + FormatDuration(d)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
