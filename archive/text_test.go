package archive_test

import (
	"encoding/json"
	"testing"

	"github.com/slidingttl/slidingttl/archive"
)

// A JSON value is written unchanged, any other in base64.
func TestValueAsJSON(t *testing.T) {
	for _, c := range []struct{ format, value, want string }{
		{"json", `{"n": 1}`, `{"n":1}`},
		{"json", `{"n":`, `"eyJuIjo="`},
		{"bytes", `1`, `"MQ=="`},
	} {
		text, err := json.Marshal(archive.Archived{Record: archive.Record{Format: c.format, Value: []byte(c.value)}})
		var written struct{ Value json.RawMessage }
		if err == nil {
			err = json.Unmarshal(text, &written)
		}
		if err != nil || string(written.Value) != c.want {
			t.Errorf("%s %s is written as %s, %v; want %s", c.format, c.value, written.Value, err, c.want)
		}
	}
}
