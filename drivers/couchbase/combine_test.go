package couchbase

import (
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The lookup may be executed before or after the touch, or after another write.
func TestCombine(t *testing.T) {
	life := func(expires driver.Instant) driver.Life { return driver.Life{CreatedAt: 1, ExpiresAt: expires} }
	was := driver.Meta{Life: life(10), Version: 1}
	touched := driver.Meta{Life: life(20), Version: 2}
	capped := driver.Meta{Life: life(15), Version: 2} // by a maxTTL
	other := driver.Meta{Life: life(30), Version: 3}
	for _, c := range []struct {
		name       string
		read, want driver.Meta
		own        bool
	}{
		{"before", was, touched, true},
		{"after", touched, touched, true},
		{"after, not as asked", capped, capped, true},
		{"after another write", other, other, false},
	} {
		if got, own := combine(c.read, was.Version, touched); got != c.want || own != c.own {
			t.Errorf("%s: %+v, %t; want %+v, %t", c.name, got, own, c.want, c.own)
		}
	}
}
