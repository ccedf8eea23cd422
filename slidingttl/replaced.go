package slidingttl

import (
	"context"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

// countReplaced returns a context under which a write counts each dead record that the driver
// reports. A driver in memory hands them over instead.
func (s *Store[T]) countReplaced(ctx context.Context, r *rules.Rules) context.Context {
	if s.local != nil {
		return ctx
	}
	return driver.WithReplaced(s.planned(ctx), func(was driver.Meta) {
		if r.DiedOfAge(was.Life) {
			s.stats.Add(tally.ReplacedOfAge)
		} else {
			s.stats.Add(tally.ReplacedIdle)
		}
	})
}

// reportReplaced returns an upsert's plan, and a function that reports the record past its cap over
// which the upsert began a new life, if there is one: to the store that record is alive.
func reportReplaced(ctx context.Context, plan driver.Plan) (_ driver.Plan, landed func(error)) {
	var over *driver.Meta
	return func(found *driver.Meta) (driver.Life, error) {
			life, err := plan(found)
			if over = nil; found != nil && found.CreatedAt != 0 && found.CreatedAt != life.CreatedAt {
				over = found
			}
			return life, err
		}, func(err error) {
			if err == nil && over != nil {
				driver.Replaced(ctx, *over)
			}
		}
}
