package slidingttl

import (
	"encoding/binary"
	"hash/maphash"
	"math"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// jitter draws a store's share of the slack: how much earlier than needed it finds
// a touch of a record due, so that of many processes that read one key together one
// touches it, and the others see that in time. It is drawn anew with each expiry.
type jitter struct{ seed maphash.Seed }

// of returns the share of slack/16 for the record under key that expires at expires.
//
// Most shares are small and few are large, as of a truncated exponential: then the
// largest of many lies apart from the next by more than a touch takes. Were they
// uniform it would be a matter of luck.
func (j jitter) of(key string, expires, slack driver.Instant) driver.Instant {
	var h maphash.Hash
	h.SetSeed(j.seed)
	h.WriteString(key)
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(expires)))
	u := float64(h.Sum64()>>11) / (1 << 53)
	w := float64(slack) / 16
	return driver.Instant(-w / 6 * math.Log(1-u*(1-math.Exp(-6))))
}
