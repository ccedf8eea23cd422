package sql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// failed maps a database's error about these rows to the driver contract's errors.
func (t *table) failed(ctx context.Context, err error, keys ...rowKey) error {
	if errors.Is(err, driver.ErrInvalid) {
		return err // already mapped by misshapen
	}
	v := t.dialect.verdict(err)
	err = driver.Ended(ctx, hidden(err, keys)) // SQLite does not say why it stopped waiting for a lock
	switch v {
	case impossible, duplicate:
		return &driver.InvalidError{Field: "row", Value: "refused", Rule: "must be one that the table takes", Err: err}
	case barred:
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return err
}

// lost is failed for a write. If the write may have landed, the error matches driver.ErrAmbiguous.
func (t *table) lost(ctx context.Context, err error, k rowKey) error {
	if t.dialect.verdict(err) == unknown && !errors.Is(err, driver.ErrInvalid) {
		return fmt.Errorf("%w: %w", driver.ErrAmbiguous, driver.Ended(ctx, hidden(err, []rowKey{k})))
	}
	return t.failed(ctx, err, k)
}

// silent hides an error's text, because it quotes a key.
type silent struct{ err error }

func (e silent) Error() string {
	var state interface{ SQLState() string }
	if errors.As(e.err, &state) {
		return "error of SQLSTATE " + state.SQLState() + ", whose text quotes the key"
	}
	return fmt.Sprintf("%T, whose text quotes the key", e.err)
}

func (e silent) Unwrap() error { return e.err }

// hidden wraps err in silent if its text quotes a key or a part of one.
func hidden(err error, keys []rowKey) error {
	text := err.Error()
	for _, k := range keys {
		if k.key != "" && strings.Contains(text, k.key) {
			return silent{err}
		}
		for _, c := range k.columns {
			if b, ok := c.([]byte); ok {
				c = string(b)
			}
			if s, ok := c.(string); ok && s != "" && strings.Contains(text, s) {
				return silent{err}
			}
		}
	}
	return err
}
