package slidingotel_test

import (
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
	"github.com/slidingttl/slidingttl/telemetry/slidingotel"
)

// A wrapped driver has the capabilities that it has without, whichever those are.
func TestCapabilities(t *testing.T) {
	tel := collect(t).tel
	drivertest.RunWrapper(t, func(inner driver.Driver[drivertest.Value]) driver.Driver[drivertest.Value] {
		d, err := slidingotel.Wrap(tel, inner, slidingotel.Database{System: "none"})
		ok(t, err)
		return d
	}, nil)
}
