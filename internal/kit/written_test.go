package kit

import (
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestParseNumber(t *testing.T) {
	for text, want := range map[string]struct {
		at                driver.Instant
		millis, finer, ok bool
	}{
		"0":                 {0, false, false, true},
		"1700000000":        {1700000000000, false, false, true},
		"1700000000.5":      {1700000000500, false, false, true},
		"1700000000.0010":   {1700000000001, false, false, true},
		"1700000000.1239":   {1700000000123, false, true, true},
		"99999999999":       {99999999999000, false, false, true},
		"100000000000":      {100000000000, true, false, true},
		"1700000000000.000": {1700000000000, true, false, true},
		"1700000000000.5":   {1700000000000, true, true, true},
		"99999999999999":    {99999999999999, true, false, true},
		"100000000000000":   {},
		"-1":                {},
		"1e9":               {},
		"1.x":               {},
		"":                  {},
	} {
		at, millis, finer, ok := ParseNumber(text)
		if at != want.at || millis != want.millis || finer != want.finer || ok != want.ok {
			t.Errorf("%q: %d, millis %t, finer %t, ok %t; want %+v", text, at, millis, finer, ok, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string][2]driver.Instant{ // rounded down, and up
		"2026-03-01T12:00:00.0015Z":     {1772366400001, 1772366400002},
		"2026-03-01T14:00:00.001+02:00": {1772366400001, 1772366400001},
		"0001-01-01T00:00:00Z":          {0, 0},
	} {
		for i, up := range []bool{false, true} {
			if got, ok := ParseTime(text, up); got != want[i] || !ok {
				t.Errorf("%s, rounded up: %t: %d, %t; want %d", text, up, got, ok, want[i])
			}
		}
	}
	for _, bad := range []string{"", "tomorrow", "1969-12-31T23:59:59Z", "2026-03-01"} {
		if at, ok := ParseTime(bad, false); ok {
			t.Errorf("%q is read as %d", bad, at)
		}
	}
}

// What is longer than an instant may be a secret, and is not quoted.
func TestOdd(t *testing.T) {
	long := "a secret, longer than any instant would be: 0123456789"
	for _, tt := range []struct{ kind, text, want string }{
		{"Number", "7", "the Number 7"},
		{"String", "soon", `the String "soon"`},
		{"String", long, "a String of 54 bytes"},
		{"L", long, "of type L"},
	} {
		err := Odd("field", tt.kind, tt.text, "must be even").(*driver.InvalidError)
		if err.Field != "field" || err.Value != tt.want || err.Rule != "must be even" {
			t.Errorf("%s %q: %+v, want the value %s", tt.kind, tt.text, err, tt.want)
		}
	}
}
