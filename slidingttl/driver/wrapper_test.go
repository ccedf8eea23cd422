package driver_test

import (
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

type clock struct{ offset time.Duration }

func (c clock) Now() time.Time { return time.UnixMilli(0).Add(c.offset) }

func (c clock) Bounds() (earliest, latest driver.Instant) { return 0, 0 }

// veil has the methods of a clock, of which it hands out another in one of the ways.
type veil struct {
	clock
	inner any
	way   driver.Way
}

func (v veil) Wrapped(capability any) (any, driver.Way) {
	if _, asked := capability.(*driver.Clock); !asked {
		return nil, driver.Through
	}
	return v.inner, v.way
}

// open hands out what the driver inside has, and has no clock's methods itself.
type open struct {
	inner any
	way   driver.Way
}

func (o open) Wrapped(any) (any, driver.Way) { return o.inner, o.way }

// Of a wrapper what it hands out counts, and not what methods it has.
func TestAs(t *testing.T) {
	for name, c := range map[string]struct {
		d    any
		want time.Duration // zero: it has no clock
	}{
		"a clock":                           {clock{1}, 1},
		"no clock":                          {struct{}{}, 0},
		"through a wrapper":                 {veil{clock{1}, clock{2}, driver.Through}, 1},
		"through a wrapper of no clock":     {veil{clock{1}, struct{}{}, driver.Through}, 0},
		"through a wrapper of nothing":      {veil{clock{1}, nil, driver.Through}, 0},
		"through a wrapper without methods": {open{clock{2}, driver.Through}, 0},
		"past a wrapper":                    {veil{clock{1}, clock{2}, driver.Past}, 2},
		"past a wrapper of no clock":        {veil{clock{1}, struct{}{}, driver.Past}, 0},
		"past one without methods":          {open{clock{2}, driver.Past}, 2},
		"always":                            {veil{clock{1}, nil, driver.Always}, 1},
		"always, without methods":           {open{clock{2}, driver.Always}, 0},
		"past one to one within":            {open{veil{clock{1}, clock{3}, driver.Through}, driver.Past}, 1},
		"through one, past one within":      {veil{clock{1}, open{clock{3}, driver.Past}, driver.Through}, 1},
		"past one, none within":             {open{veil{clock{1}, nil, driver.Past}, driver.Past}, 0},
	} {
		got, has := driver.As[driver.Clock](c.d)
		if has != (c.want != 0) || has && got.Now() != time.UnixMilli(0).Add(c.want) || !has && got != nil {
			t.Errorf("%s: %v, %v; want %v", name, got, has, c.want)
		}
	}
	if _, has := driver.As[driver.Checker](veil{clock{1}, clock{2}, driver.Through}); has {
		t.Error("a wrapper has a capability that it does not hand out")
	}
}
