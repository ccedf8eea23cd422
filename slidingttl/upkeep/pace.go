package upkeep

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// pace limits its callers to a number of units a second. A nil pace has no limit.
type pace struct {
	tokens *rate.Limiter // in thousandths of a unit, for a cost may be a fraction
}

const thousandths = 1000

// newPace returns a pace of perSecond units a second, nil for zero. A burst is the units of a
// fiftieth of a second, or one unit, so that live traffic sees no long bursts.
func newPace(perSecond float64) *pace {
	if perSecond == 0 {
		return nil
	}
	burst := max(thousandths, int(min(perSecond*thousandths/50, math.MaxInt32)))
	return &pace{rate.NewLimiter(rate.Limit(perSecond*thousandths), burst)}
}

// wait returns when n more units may be spent.
func (p *pace) wait(ctx context.Context, n float64) error {
	if p == nil {
		return ctx.Err()
	}
	for left := int64(math.Ceil(n * thousandths)); left > 0; {
		part := min(left, int64(p.tokens.Burst()))
		left -= part
		now := time.Now()
		if err := driver.Sleep(ctx, p.tokens.ReserveN(now, int(part)).DelayFrom(now)); err != nil {
			return err
		}
	}
	return ctx.Err()
}
