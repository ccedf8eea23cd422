package hot_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// A tier has the capabilities of the driver below it, except for those that it always has or
// never has.
func TestCapabilities(t *testing.T) {
	drivertest.RunWrapper(t, func(inner driver.Driver[drivertest.Value]) driver.Driver[drivertest.Value] {
		h, err := hot.New(inner, hot.Bounds{Records: 1, Staleness: staleness}, nil)
		ok(t, "New", err)
		return h
	}, map[string]bool{"Latest": true, "Checker": true, "Local": false, "Slider": false}) // a Slider is a Local
}

// unfit is a driver whose Check fails.
type unfit struct{ driver.Driver[string] }

var errUnfit = errors.New("the store is unfit")

// Check implements driver.Checker.
func (unfit) Check(context.Context, time.Duration) error { return errUnfit }

// Check requires LateDeletes, and returns the errors of the driver below.
func TestCheck(t *testing.T) {
	r := newRemote[string](t)
	for _, late := range []bool{false, true} {
		for _, d := range []driver.Driver[string]{r, unfit{r}} {
			_, bad := d.(unfit)
			h, err := hot.New(d, hot.Bounds{Records: 1, Staleness: staleness}, &hot.Options[string]{LateDeletes: late})
			ok(t, "New", err)
			err = h.Check(t.Context(), time.Hour)
			var invalid *driver.InvalidError
			said := errors.As(err, &invalid) && invalid.Field == "Options.LateDeletes" && strings.Contains(invalid.Rule, "30s")
			if said == late || errors.Is(err, errUnfit) != bad {
				t.Errorf("LateDeletes %v, store unfit %v: Check: %v", late, bad, err)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for field, b := range map[string]hot.Bounds{
		"Bounds.Records":   {Staleness: time.Second},
		"Bounds.Staleness": {Records: 1},
		"Bounds.Absence":   {Records: 1, Staleness: 1, Absence: -1},
		"Bounds.Bytes":     {Records: 1, Staleness: 1, Bytes: 1}, // without SizeOf
	} {
		var invalid *driver.InvalidError
		if _, err := hot.New[string](newRemote[string](t), b, nil); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("New with %+v: %v; want an error of %s", b, err, field)
		}
	}
	if _, err := hot.New[string](nil, hot.Bounds{Records: 1, Staleness: 1}, nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("New of nil: %v", err)
	}
}
