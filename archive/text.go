package archive

import (
	"encoding/json"
	"maps"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/internal/keytext"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// MarshalJSON implements json.Marshaler. The key is written as in the column key: base64: comes before
// one that is not text. Times are RFC 3339, or null. A value that is JSON in UTF-8 is written as JSON,
// without white space and with <, > and & escaped, and any other in base64. A number that JSON
// lacks is text: "NaN", "+Inf" or "-Inf".
func (a Archived) MarshalJSON() ([]byte, error) {
	columns := maps.Clone(a.Columns)
	for name, v := range columns {
		if n, ok := v.(float64); ok && (math.IsNaN(n) || math.IsInf(n, 0)) {
			columns[name] = strconv.FormatFloat(n, 'g', -1, 64)
		}
	}
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
	}{keytext.Encode(a.Key), a.Source, a.Generation, timeOf(a.CreatedAt), timeOf(a.ExpiredAt), timeOf(a.ArchivedAt), a.Reason, a.Format, a.value(), columns})
}

// value returns values that are JSON in UTF-8 as json.RawMessage, and others as bytes.
func (a *Archived) value() any {
	if a.Format != "bytes" && json.Valid(a.Value) && utf8.Valid(a.Value) {
		return json.RawMessage(a.Value)
	}
	return a.Value
}

// timeOf returns i as a time, nil for zero.
func timeOf(i driver.Instant) *time.Time {
	if i == 0 {
		return nil
	}
	t := i.Time()
	return &t
}
