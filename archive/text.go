package archive

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// MarshalJSON implements json.Marshaler. Times are RFC 3339, or null. A JSON value is written
// unchanged, any other value in base64.
func (a Archived) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Key        string         `json:"key"`
		Source     string         `json:"source"`
		Generation string         `json:"generation"`
		CreatedAt  *time.Time     `json:"created_at"`
		ExpiredAt  *time.Time     `json:"expired_at"`
		ArchivedAt *time.Time     `json:"archived_at"`
		Reason     Reason         `json:"reason"`
		Format     string         `json:"format"`
		Value      any            `json:"value"`
		Columns    map[string]any `json:"columns,omitempty"`
	}{a.Key, a.Source, a.Generation, timeOf(a.CreatedAt), timeOf(a.ExpiredAt), timeOf(a.ArchivedAt), a.Reason, a.Format, a.value(), a.Columns})
}

// value returns JSON values as json.RawMessage, and others as bytes.
func (a *Archived) value() any {
	if a.Format != "bytes" && json.Valid(a.Value) {
		return json.RawMessage(a.Value)
	}
	return a.Value
}

// String returns a as several lines of text.
func (a *Archived) String() string {
	value, _ := json.Marshal(a.value()) // cannot fail: bytes, or valid JSON
	clock := func(i driver.Instant) string {
		if i == 0 {
			return "none"
		}
		return i.Time().Format("2006-01-02 15:04:05.000 MST")
	}
	return fmt.Sprintf("died (%s), from %s, generation %s\n  created_at  %s\n  expired_at  %s\n  archived_at %s\n  value       %s",
		a.Reason, a.Source, a.Generation, clock(a.CreatedAt), clock(a.ExpiredAt), clock(a.ArchivedAt), value)
}

// timeOf returns i as a time, nil for zero.
func timeOf(i driver.Instant) *time.Time {
	if i == 0 {
		return nil
	}
	t := i.Time()
	return &t
}
