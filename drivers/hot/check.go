package hot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Check implements driver.Checker. It requires Options.LateDeletes, and asks the wrapped
// driver's Checker.
func (d *Driver[T]) Check(ctx context.Context, longest time.Duration) error {
	var late, inner error
	if !d.opts.LateDeletes {
		late = &driver.InvalidError{
			Field: "Options.LateDeletes",
			Value: "false",
			Rule: fmt.Sprintf("must be true: a record that another process deletes, or a session that it revokes, is answered here for up to %v longer "+
				"unless Forget is called", d.bounds.Staleness),
		}
	}
	if checker, ok := driver.As[driver.Checker](d.inner); ok {
		inner = checker.Check(ctx, longest)
	}
	return errors.Join(late, inner)
}
