package upkeep

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// pace holds its callers to so many units a second. A nil pace holds nobody.
type pace struct {
	tokens *rate.Limiter // in thousandths of a unit, for a cost may be a fraction
}

const thousandths = 1000

// newPace returns the pace of that many units a second, nil for zero. What is spent at
// once is a fiftieth of a second's worth, or one unit, so that what stands beside it
// sees no bursts.
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
