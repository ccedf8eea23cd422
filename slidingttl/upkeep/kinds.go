package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/slidingttl/slidingttl/internal/field"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// spared reports whether r is of a kind that this operation does not write. A key only looks like a
// kind, so the record is read too.
func (w *writer) spared(ctx context.Context, r *record) (bool, error) {
	kind := verdict.KindOfAny(w.prefix + r.Key)
	if w.all || kind == verdict.Plain || slices.Contains(w.kinds, kind) {
		return false, nil
	}
	if w.raw == nil {
		return true, nil
	}
	var raw driver.Raw
	err := w.retry(ctx, r, func() (err error) {
		raw, err = w.raw.Raw(ctx, r.Key)
		return err
	})
	if errors.Is(err, driver.ErrNotFound) {
		return false, nil // the write finds that too
	}
	if err != nil {
		return false, err
	}
	return isSession(raw.Value), nil
}

// isSession reports whether value is what middleware/session stores, or is no JSON and may be.
func isSession(value []byte) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil {
		return true
	}
	token := fields["token"]
	var binary struct{ B []byte } // of DynamoDB
	if json.Unmarshal(token, &binary) == nil {
		return len(binary.B) == tokenBytes
	}
	if json.Unmarshal(token, &binary.B) == nil && len(binary.B) == tokenBytes {
		return true
	}
	kind, _ := field.Text(value, "kind")
	return token == nil && (kind == "1" || kind == "2")
}

// tokenBytes is the length of a token's hash.
const tokenBytes = 32
