package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Kind is what a record is. All but Plain live by policies of their own, so an operation that goes by
// one policy would end them too early.
type Kind string

// The kinds. The sessions and indexes are those of middleware/session.
const (
	Plain   Kind = "plain"
	Session Kind = "session" // or the mark of one that has ended
	Index   Kind = "index"   // of a user's sessions
)

// KindOf returns the kind of record that key looks like. A key such as "users:" and 24 letters looks
// plain, though a session's prefix may end in a letter too.
func KindOf(key string) Kind {
	kind := kindOf(key)
	if kind == Plain {
		return Plain
	}
	before := strings.TrimRight(key, alphabet)
	before = before[:len(before)-len("s:")]
	if before != "" && strings.ContainsAny(before[len(before)-1:], alphabet[:62]) {
		return Plain
	}
	return kind
}

// alphabet is base64's for URLs.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// kindOf is KindOf for any prefix. middleware/session ends its keys so, since its first commit: with
// an ID of 18 bytes, or with the hash of a user.
func kindOf(key string) Kind {
	before := strings.TrimRight(key, alphabet)
	switch n := len(key) - len(before); {
	case n == 24 && strings.HasSuffix(before, "s:"):
		return Session
	case n == 43 && strings.HasSuffix(before, "u:"):
		return Index
	}
	return Plain
}

// spared reports whether r is of a kind that this operation does not write. A key only looks like a
// kind, so the record is read too.
func (w *writer) spared(ctx context.Context, r *record) (bool, error) {
	kind := kindOf(r.Key)
	if w.all || kind == Plain || slices.Contains(w.kinds, kind) {
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
	kind, _ := Field(value, "kind")
	return token == nil && (kind == "1" || kind == "2")
}

// tokenBytes is the length of a token's hash.
const tokenBytes = 32
