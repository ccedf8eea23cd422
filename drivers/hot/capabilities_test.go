package hot_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// able is a driver that has the capabilities that are set.
type able struct {
	*remote[string]
	has map[string]bool
}

// As implements driver.Wrapper.
func (a able) As(target any) bool {
	name := ""
	switch to := target.(type) {
	case *driver.Upserter[string]:
		name, *to = "Upserter", a
	case *driver.Overwriter[string]:
		name, *to = "Overwriter", a
	case *driver.BatchGetter[string]:
		name, *to = "BatchGetter", a
	case *driver.ReadToucher[string]:
		name, *to = "ReadToucher", a
	case *driver.Latest[string]:
		name, *to = "Latest", latest[string]{a.remote}
	case *driver.Remover[string]:
		name, *to = "Remover", a
	case *driver.Local[string]:
		name, *to = "Local", a
	case *driver.Clock:
		name, *to = "Clock", a
	case *driver.Checker:
		name, *to = "Checker", a
	case *driver.Scanner:
		name, *to = "Scanner", a
	case *driver.RawReader:
		name, *to = "RawReader", a
	case *driver.Mender:
		name, *to = "Mender", mender{a.remote}
	}
	return a.has[name]
}

var errUnfit = errors.New("the store is unfit")

// Check implements driver.Checker.
func (able) Check(context.Context, time.Duration) error { return errUnfit }

// capabilities tell of each whether a driver has it.
var capabilities = map[string]func(d any) bool{
	"Upserter":    has[driver.Upserter[string]],
	"Overwriter":  has[driver.Overwriter[string]],
	"BatchGetter": has[driver.BatchGetter[string]],
	"ReadToucher": has[driver.ReadToucher[string]],
	"Latest":      has[driver.Latest[string]],
	"Remover":     has[driver.Remover[string]],
	"Local":       has[driver.Local[string]],
	"Clock":       has[driver.Clock],
	"Checker":     has[driver.Checker],
	"Scanner":     has[driver.Scanner],
	"RawReader":   has[driver.RawReader],
	"Mender":      has[driver.Mender],
}

func has[C any](d any) bool {
	_, ok := driver.As[C](d)
	return ok
}

// A tier has the capabilities of the driver below it, whichever those are, and those that
// it has or lacks of its own.
func TestCapabilities(t *testing.T) {
	names, r := slices.Sorted(maps.Keys(capabilities)), newRemote[string](t)
	for set := range 1 << len(names) {
		inner := able{r, make(map[string]bool)}
		for i, name := range names {
			inner.has[name] = set>>i&1 == 1
		}
		h := tier(t, inner, 1)
		for _, name := range names {
			want := inner.has[name]
			switch name {
			case "Latest", "Checker":
				want = true
			case "Local":
				want = false
			}
			if got := capabilities[name](h); got != want {
				t.Fatalf("of a driver that has %v the tier has %s: %v", inner.has, name, got)
			}
		}
	}
}

// The test above knows every capability there is.
func TestCapabilitiesAreAll(t *testing.T) {
	files, err := filepath.Glob("../../slidingttl/driver/*.go")
	ok(t, "Glob", err)
	var found []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		ok(t, "ParseFile", err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is {
				return true
			}
			if _, is := spec.Type.(*ast.InterfaceType); is && spec.Name.Name != "Driver" && spec.Name.Name != "Wrapper" {
				found = append(found, spec.Name.Name)
			}
			return false
		})
	}
	slices.Sort(found)
	if want := slices.Sorted(maps.Keys(capabilities)); !slices.Equal(found, want) {
		t.Errorf("package driver has the capabilities %v; tested are %v", found, want)
	}
}

// Check says that a deletion elsewhere is late, until that is known, and what is wrong below.
func TestCheck(t *testing.T) {
	r := newRemote[string](t)
	for _, late := range []bool{false, true} {
		for _, unfit := range []bool{false, true} {
			h, err := hot.New[string](able{r, map[string]bool{"Checker": unfit}}, hot.Bounds{Records: 1, Staleness: staleness}, &hot.Options{LateDeletes: late})
			ok(t, "New", err)
			err = h.Check(t.Context(), time.Hour)
			var invalid *driver.InvalidError
			said := errors.As(err, &invalid) && invalid.Field == "Options.LateDeletes" && strings.Contains(invalid.Rule, "30s")
			if said == late || errors.Is(err, errUnfit) != unfit {
				t.Errorf("LateDeletes %v, store unfit %v: Check: %v", late, unfit, err)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for field, b := range map[string]hot.Bounds{
		"Bounds.Records":   {Staleness: time.Second},
		"Bounds.Staleness": {Records: 1},
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
