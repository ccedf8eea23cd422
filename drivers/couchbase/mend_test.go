package couchbase

import (
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var (
	_ driver.Scanner   = (*Driver[int])(nil)
	_ driver.RawReader = (*Driver[int])(nil)
	_ driver.Mender    = (*Driver[int])(nil)
)

// The meaning of a created_at in a foreign form, if it is clear.
func TestMeant(t *testing.T) {
	for raw, want := range map[string]driver.Instant{
		`"2024-03-01T12:00:00.5+02:00"`: 1709287200500,
		`"2024-03-01 10:00:00"`:         1709287200000,
		`1709287200`:                    1709287200000,
		`1709287200.25`:                 1709287200250,
		`1709287200500`:                 1709287200500,
		`"1709287200500"`:               1709287200500,
		`"1709287200"`:                  1709287200000,
		`"yesterday"`:                   0,
		`""`:                            0,
		`0`:                             0,
		`-1709287200`:                   0,
		`1709287200500000`:              0, // microseconds
		`"1969-12-31T23:59:59Z"`:        0,
		`"NaN"`:                         0,
		`true`:                          0,
		`{"at": 1709287200}`:            0,
		`[1709287200]`:                  0,
	} {
		got, ok := parseForeign([]byte(raw))
		if ok != (want != 0) || ok && got != want {
			t.Errorf("%s is read as %d, %v; want %d", raw, got, ok, want)
		}
	}
}

func TestLive(t *testing.T) {
	var d Driver[int]
	if got, want := d.Live("u`x", 1767225600999), "(META(`u``x`).expiration = 0 OR META(`u``x`).expiration > 1767225600)"; got != want {
		t.Errorf("Live is %s; want %s", got, want)
	}
	d.opts.Retain, d.created = time.Hour, place{path: "app.ttl"}
	if got, want := d.Live("u", 1767225600999), "(META(`u`).expiration = 0 OR CASE WHEN META(`u`).xattrs.`app`.`ttl`[2] = META(`u`).expiration THEN META(`u`).xattrs.`app`.`ttl`[1] ELSE META(`u`).expiration END > 1767225600)"; got != want {
		t.Errorf("with Retain Live is %s; want %s", got, want)
	}
}
