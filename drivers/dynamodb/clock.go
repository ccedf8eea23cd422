package dynamodb

import (
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
)

// ServerTime returns the time by DynamoDB's clock, as far as the Date of its answers
// tells, for a store whose app servers' clocks may differ:
//
//	slidingttl.New(d, policy, &slidingttl.Options[Session]{Now: d.ServerTime})
//
// Before the first answer it is the system's time. A Date has whole seconds; many
// answers together tell the offset to little more than the shortest round trip.
// Stats says how well it is known.
func (d *Driver[T]) ServerTime() time.Time {
	offset, _ := d.clock.offset()
	return time.Now().Add(offset)
}

// serverClock learns by how much the server's clock is ahead of the system's. Each
// answer says within which bounds that lies, and the bounds of many are narrower.
type serverClock struct{ known atomic.Pointer[bounds] }

// bounds are those of the offset, as known at a moment.
type bounds struct {
	least, most time.Duration
	at          time.Time
}

const (
	dateStep = time.Second // of the Date header, which is rounded down

	// drift is how much of a second two clocks may part in one.
	drift = 200e-6
)

// parted is by how much two clocks may part in d.
func parted(d time.Duration) time.Duration { return time.Duration(float64(d) * drift) }

// observe learns from the answer to a request that was sent then.
func (c *serverClock) observe(sent time.Time, answer middleware.Metadata) {
	date, ok := awsmiddleware.GetServerTime(answer)
	if !ok || date.IsZero() {
		return
	}
	got, ok := awsmiddleware.GetResponseAt(answer)
	if !ok {
		return
	}
	// The server took the time after sent and before got.
	c.learn(bounds{least: date.Sub(got), most: date.Add(dateStep).Sub(sent), at: got})
}

func (c *serverClock) learn(seen bounds) {
	known := c.known.Load()
	if known != nil {
		apart := parted(seen.at.Sub(known.at))
		least, most := known.least-apart, known.most+apart
		if seen.least <= least && seen.most >= most {
			return // nothing new
		}
		if seen.least <= most && seen.most >= least {
			seen.least, seen.most = max(seen.least, least), min(seen.most, most)
		} // else a clock was set, and what was known is worth nothing
	}
	c.known.CompareAndSwap(known, &seen)
}

// offset returns the offset and by how much it may be wrong.
func (c *serverClock) offset() (offset, within time.Duration) {
	known := c.known.Load()
	if known == nil {
		return 0, 0
	}
	half := (known.most - known.least) / 2
	return known.least + half, half + parted(time.Since(known.at))
}
