package couchbase

import (
	"errors"
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A stamp is read back as written, and nothing else parses as one.
func TestStamp(t *testing.T) {
	const n = driver.Instant(1709211845123)
	for text, want := range map[string]terms{
		`1709211845123`:                                {},
		`[1709211845123,1709213645,1709217245]`:        {1709213645, 1709217245},
		"[1709211845123, 1709213645 ,\t1709217245\n]":  {1709213645, 1709217245},
		string(terms{5, 5}.stamp(n)):                   {},
		string(terms{}.stamp(n)):                       {},
		string(terms{1709213645, 1709217245}.stamp(n)): {1709213645, 1709217245},
		string(terms{4294967294, 4294967295}.stamp(n)): {4294967294, 4294967295},
	} {
		got, terms, ok := parseStamp([]byte(text))
		if !ok || got != n || terms != want {
			t.Errorf("%s is read as %d, %v, %t; want %d, %v", text, got, terms, ok, n, want)
		}
	}
	for _, bad := range []string{``, `[`, `[]`, `[1]`, `[1,2]`, `[1,2,3`, `[1,2,3,4]`, `[1,2,3]]`, `[1,2,-3]`, `[1,2,4294967296]`, `[1,,3]`, `["1",2,3]`, `"1"`, `1.5`, `{}`} {
		if n, terms, ok := parseStamp([]byte(bad)); ok {
			t.Errorf("%s is read as %d, %v; want nothing", bad, n, terms)
		}
	}
}

// A document's record depends on which program's write set the document's expiry.
func TestRecord(t *testing.T) {
	const (
		born, expires, until = 1709211845123, 1709213645, 1709217245
		stamp                = `[1709211845123,1709213645,1709217245]`
	)
	alive := driver.Version((expires - 1) * 1e9) // the CAS of a write while it was alive
	dead := driver.Version(expires * 1e9)
	x, b := place{path: defaultXattr}, place{body: true, path: defaultField}
	for name, c := range map[string]struct {
		place place
		exp   uint32
		body  driver.Instant // created_at in it
		stamp string
		cas   driver.Version
		want  driver.Life
		err   error
	}{
		"no stamp":                        {place: x, exp: 7, want: driver.Life{ExpiresAt: 7000}},
		"null":                            {place: x, exp: 7, stamp: "null", want: driver.Life{ExpiresAt: 7000}},
		"not retained":                    {place: x, exp: 7, stamp: "5", want: driver.Life{CreatedAt: 5, ExpiresAt: 7000}},
		"retained":                        {place: x, exp: until, stamp: stamp, cas: alive, want: driver.Life{CreatedAt: born, ExpiresAt: expires * 1000}},
		"retained, expiry kept by others": {place: x, exp: until, stamp: stamp, cas: dead, want: driver.Life{CreatedAt: born, ExpiresAt: expires * 1000}},
		"moved by others":                 {place: x, exp: until - 1, stamp: stamp, cas: alive, want: driver.Life{CreatedAt: born, ExpiresAt: (until - 1) * 1000}},
		"moved by others when dead":       {place: x, exp: until - 1, stamp: stamp, cas: dead, want: driver.Life{ExpiresAt: (until - 1) * 1000}},
		"kept for ever by others":         {place: x, stamp: stamp, cas: alive, want: driver.Life{CreatedAt: born}},
		"written by others when dead":     {place: x, stamp: stamp, cas: dead},
		"locked by others":                {place: x, exp: until, stamp: stamp, cas: lockedVersion, want: driver.Life{CreatedAt: born, ExpiresAt: expires * 1000}},
		"moved and locked by others":      {place: x, exp: 7, stamp: stamp, cas: lockedVersion, want: driver.Life{CreatedAt: born, ExpiresAt: 7000}, err: errHidden},
		"Go's zero time":                  {place: x, exp: 7, stamp: "-62135596800000", want: driver.Life{ExpiresAt: 7000}},
		"body, not retained":              {place: b, exp: 7, body: 5, stamp: "6", want: driver.Life{CreatedAt: 5, ExpiresAt: 7000}},
		"body, retained":                  {place: b, exp: until, body: 5, stamp: stamp, cas: alive, want: driver.Life{CreatedAt: 5, ExpiresAt: expires * 1000}},
		"body, written by others":         {place: b, exp: 7, body: 5, stamp: stamp, cas: dead, want: driver.Life{CreatedAt: 5, ExpiresAt: 7000}},
		"body, another's xattr":           {place: b, exp: 7, body: 5, stamp: `"x"`, want: driver.Life{CreatedAt: 5, ExpiresAt: 7000}},
	} {
		r, err := c.place.record(instantOf(c.exp), c.body, []byte(c.stamp), c.cas)
		if !errors.Is(err, c.err) || r.Life != c.want || r.Version != c.cas || r.until != instantOf(c.exp) {
			t.Errorf("%s: %+v, %v; want %+v", name, r, err, c.want)
		}
	}
}

// A created_at before 1970 is refused.
func TestNegativeStamp(t *testing.T) {
	for _, stamp := range []string{"-1", "[-5,1,2]"} {
		if r, err := (place{path: defaultXattr}).record(7000, 0, []byte(stamp), 1); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %+v, %v; want ErrInvalid", stamp, r, err)
		}
	}
}
