package slidingttl

import (
	"context"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

// countReplaced has a write under the context that it returns count each dead record that the
// driver tells of. A driver in memory hands those over instead.
func (s *Store[T]) countReplaced(ctx context.Context, r *policy.Rules) context.Context {
	if s.local != nil {
		return ctx
	}
	return driver.WithReplaced(ctx, func(was driver.Meta) {
		if r.DiedOfAge(was.Life) {
			s.stats.Add(tally.ReplacedOfAge)
		} else {
			s.stats.Add(tally.ReplacedIdle)
		}
	})
}

// tellReplaced is an upsert's plan that tells, by what it returns, of a record past its cap
// that the upsert has begun a new life over: to the store that one is alive.
func tellReplaced(ctx context.Context, plan driver.Plan) (_ driver.Plan, landed func(error)) {
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
