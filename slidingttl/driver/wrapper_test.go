package driver_test

import (
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

type clock struct{ offset time.Duration }

func (c clock) Now() time.Time { return time.UnixMilli(0).Add(c.offset) }

func (c clock) Bounds() (earliest, latest driver.Instant) { return 0, 0 }

// veil has the methods of a clock, and hands out another or none.
type veil struct {
	clock
	out *clock
}

func (v veil) As(target any) bool {
	c, ok := target.(*driver.Clock)
	if ok && v.out != nil {
		*c = *v.out
	}
	return ok && v.out != nil
}

// Of a wrapper what it hands out counts, and not what methods it has.
func TestAs(t *testing.T) {
	for name, c := range map[string]struct {
		d    any
		want time.Duration
		has  bool
	}{
		"a clock":                   {clock{1}, 1, true},
		"no clock":                  {struct{}{}, 0, false},
		"a wrapper of a clock":      {veil{clock{1}, &clock{2}}, 2, true},
		"a wrapper of no clock":     {veil{clock{1}, nil}, 0, false},
		"a wrapper within another":  {outer{veil{clock{1}, &clock{3}}}, 3, true},
		"a wrapper within, no such": {outer{veil{clock{1}, nil}}, 0, false},
	} {
		got, has := driver.As[driver.Clock](c.d)
		if has != c.has || has && got.Now() != time.UnixMilli(0).Add(c.want) || !has && got != nil {
			t.Errorf("%s: %v, %v; want %v, %v", name, got, has, c.want, c.has)
		}
	}
	if _, has := driver.As[driver.Checker](veil{clock{1}, &clock{2}}); has {
		t.Error("a wrapper has a capability that it does not hand out")
	}
}

// outer is a wrapper that hands out what the one inside does.
type outer struct{ inner any }

func (o outer) As(target any) (ok bool) {
	if c, asked := target.(*driver.Clock); asked {
		*c, ok = driver.As[driver.Clock](o.inner)
	}
	return ok
}
