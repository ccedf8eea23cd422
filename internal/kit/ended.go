package kit

import (
	"context"
	"errors"
	"fmt"
)

// Ended adds ctx's error to err, unless ctx has not ended or err has it already.
func Ended(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}
