// Package field finds fields of values that are JSON.
package field

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Text finds a text or number in JSON, or in DynamoDB's JSON: "user.id" is id in user.
func Text(value []byte, path string) (string, bool) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return "", false
	}
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		if inner, is := m["M"].(map[string]any); is && len(m) == 1 && m[name] == nil {
			m = inner
		}
		v = m[name]
	}
	if m, ok := v.(map[string]any); ok && len(m) == 1 {
		for _, kind := range []string{"S", "N"} {
			if inner, ok := m[kind]; ok {
				v = inner
			}
		}
	}
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}
