package archive_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/internal/keytext"
)

// A value that is JSON in UTF-8 is written as JSON, any other in base64.
func TestValueAsJSON(t *testing.T) {
	for _, c := range []struct{ format, value, want string }{
		{"json", `{"n": 1}`, `{"n":1}`},
		{"json", `{"n":`, `"eyJuIjo="`},
		{"bytes", `1`, `"MQ=="`},
		{"json", `"<é>"`, `"\u003cé\u003e"`},
		{"json", "\"\xff\"", `"Iv8i"`},
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

// A key is written as in the column key, and a number as --where reads it.
func TestRecordAsJSON(t *testing.T) {
	keys := map[string]bool{}
	for _, key := range []string{"a", "k\xff", "k\xfe", "base64:", "base64:a/8=", "k\ufffd"} {
		text, err := json.Marshal(archive.Archived{Record: archive.Record{Key: key}})
		ok(t, err)
		var written archive.Asked
		ok(t, json.Unmarshal(text, &written))
		of, err := keytext.Decode(written.Key)
		if err != nil || of != key || keys[written.Key] {
			t.Errorf("%q is written as %q, %v", key, written.Key, err)
		}
		keys[written.Key] = true
	}
	for _, n := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 7.5} {
		text, err := json.Marshal(archive.Archived{Columns: map[string]any{"n": n, "of": "text"}})
		ok(t, err)
		var written struct {
			Columns struct {
				N  json.RawMessage
				Of string
			}
		}
		ok(t, json.Unmarshal(text, &written))
		back, err := strconv.ParseFloat(strings.Trim(string(written.Columns.N), `"`), 64)
		if err != nil || math.Float64bits(back) != math.Float64bits(n) && !math.IsNaN(n) || written.Columns.Of != "text" {
			t.Errorf("%v is written as %s, %v", n, text, err)
		}
	}
}
