package drivertest

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// RunWrapper tests that a driver.Wrapper has exactly the capabilities of the driver it
// wraps. It tries every set of optional capabilities. own names, as package driver does,
// the exceptions: capabilities that the wrapper always has (true) or never has. wrap must
// not call a method of the driver that it is given.
//
// Whether the capabilities that are handed out keep the contract is for [Run].
func RunWrapper(t *testing.T, wrap func(driver.Driver[Value]) driver.Driver[Value], own map[string]bool) {
	t.Helper()
	names := slices.Sorted(maps.Keys(capabilities))
	for set := range 1 << len(names) {
		inner := able{has: make(map[string]bool)}
		for i, name := range names {
			inner.has[name] = set>>i&1 == 1
		}
		d := wrap(inner)
		for _, name := range names {
			want, set := own[name]
			if !set {
				want = inner.has[name]
			}
			if got := capabilities[name](d); got != want {
				t.Fatalf("of a driver that has %v the wrapper has %s: %v", inner.has, name, got)
			}
		}
	}
}

// capabilities has a function for each capability, which reports whether a driver has it.
var capabilities = map[string]func(d driver.Driver[Value]) bool{
	"Upserter":    offers[driver.Upserter[Value]],
	"Overwriter":  offers[driver.Overwriter[Value]],
	"BatchGetter": offers[driver.BatchGetter[Value]],
	"ReadToucher": offers[driver.ReadToucher[Value]],
	"Latest":      offers[driver.Latest[Value]],
	"Remover":     offers[driver.Remover],
	"Local":       offers[driver.Local[Value]],
	"Slider":      offers[driver.Slider[Value]],
	"Clock":       offers[driver.Clock],
	"Checker":     offers[driver.Checker],
	"Scanner":     offers[driver.Scanner],
	"Dying":       offers[driver.Dying],
	"RawReader":   offers[driver.RawReader],
	"Mender":      offers[driver.Mender],
	"Eraser":      offers[driver.Eraser],
}

func offers[C any](d driver.Driver[Value]) bool {
	c, ok := driver.As[C](d)
	return ok && any(c) != nil
}

// able is a driver with the capabilities that are set. Its methods do not work.
type able struct {
	driver.Driver[Value]
	has map[string]bool
}

// Wrapped implements driver.Wrapper.
func (a able) Wrapped(capability any) (inner any, way driver.Way) {
	name := ""
	switch capability.(type) {
	case *driver.Upserter[Value]:
		name, inner = "Upserter", struct{ driver.Upserter[Value] }{}
	case *driver.Overwriter[Value]:
		name, inner = "Overwriter", struct{ driver.Overwriter[Value] }{}
	case *driver.BatchGetter[Value]:
		name, inner = "BatchGetter", struct{ driver.BatchGetter[Value] }{}
	case *driver.ReadToucher[Value]:
		name, inner = "ReadToucher", struct{ driver.ReadToucher[Value] }{}
	case *driver.Latest[Value]:
		name, inner = "Latest", lately{}
	case *driver.Remover:
		name, inner = "Remover", struct{ driver.Remover }{}
	case *driver.Local[Value]:
		name, inner = "Local", struct{ driver.Local[Value] }{}
	case *driver.Slider[Value]:
		name, inner = "Slider", struct{ driver.Slider[Value] }{}
	case *driver.Clock:
		name, inner = "Clock", struct{ driver.Clock }{}
	case *driver.Checker:
		name, inner = "Checker", struct{ driver.Checker }{}
	case *driver.Dying:
		name, inner = "Dying", dying{}
	case *driver.Scanner:
		name, inner = "Scanner", struct{ driver.Scanner }{}
	case *driver.RawReader:
		name, inner = "RawReader", struct{ driver.RawReader }{}
	case *driver.Mender:
		name, inner = "Mender", struct{ driver.Mender }{}
	case *driver.Eraser:
		name, inner = "Eraser", struct{ driver.Eraser }{}
	}
	if !a.has[name] {
		inner = nil
	}
	return inner, driver.Past
}

// dying adds the method Dying, since an embedded driver.Dying would be a field of that name.
type dying struct{}

func (dying) Dying(context.Context, driver.Instant, driver.Instant, int) ([]driver.Scanned, error) {
	panic("called")
}

// lately adds the method Latest, since an embedded driver.Latest would be a field of that name.
type lately struct{ driver.Driver[Value] }

func (lately) Latest(context.Context, string) (e driver.Entry[Value], err error) { return e, err }
