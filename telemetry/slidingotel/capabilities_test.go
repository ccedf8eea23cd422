package slidingotel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/telemetry/slidingotel"
)

// able is a driver that has the capabilities that are set.
type able struct {
	driver.Driver[int]
	all
	has map[string]bool
}

// all are the optional capabilities, all nil: what is tested is whether they are there.
type all struct {
	driver.Upserter[int]
	driver.Overwriter[int]
	driver.BatchGetter[int]
	driver.ReadToucher[int]
	driver.Latest[int]
	driver.Remover[int]
	driver.Local[int]
	driver.Clock
	driver.Checker
	driver.Scanner
	driver.RawReader
	driver.Mender
}

// As implements driver.Wrapper.
func (a able) As(target any) bool {
	name, set := "", func() {}
	switch to := target.(type) {
	case *driver.Upserter[int]:
		name, set = "Upserter", func() { *to = a.Upserter }
	case *driver.Overwriter[int]:
		name, set = "Overwriter", func() { *to = a.Overwriter }
	case *driver.BatchGetter[int]:
		name, set = "BatchGetter", func() { *to = a.BatchGetter }
	case *driver.ReadToucher[int]:
		name, set = "ReadToucher", func() { *to = a.ReadToucher }
	case *driver.Latest[int]:
		name, set = "Latest", func() { *to = a.Latest }
	case *driver.Remover[int]:
		name, set = "Remover", func() { *to = a.Remover }
	case *driver.Local[int]:
		name, set = "Local", func() { *to = a.Local }
	case *driver.Clock:
		name, set = "Clock", func() { *to = a.Clock }
	case *driver.Checker:
		name, set = "Checker", func() { *to = a.Checker }
	case *driver.Scanner:
		name, set = "Scanner", func() { *to = a.Scanner }
	case *driver.RawReader:
		name, set = "RawReader", func() { *to = a.RawReader }
	case *driver.Mender:
		name, set = "Mender", func() { *to = a.Mender }
	}
	set()
	return a.has[name]
}

// capabilities tell of each whether a driver has it.
var capabilities = map[string]func(d any) bool{
	"Upserter":    has[driver.Upserter[int]],
	"Overwriter":  has[driver.Overwriter[int]],
	"BatchGetter": has[driver.BatchGetter[int]],
	"ReadToucher": has[driver.ReadToucher[int]],
	"Latest":      has[driver.Latest[int]],
	"Remover":     has[driver.Remover[int]],
	"Local":       has[driver.Local[int]],
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

// A wrapped driver has the capabilities that it has without, whichever those are.
func TestCapabilities(t *testing.T) {
	tel := collect(t).tel
	names := slices.Sorted(maps.Keys(capabilities))
	for set := range 1 << len(names) {
		inner := able{has: make(map[string]bool)}
		for i, name := range names {
			inner.has[name] = set>>i&1 == 1
		}
		d, err := slidingotel.Wrap(tel, driver.Driver[int](inner), slidingotel.Database{System: "none"})
		ok(t, err)
		for _, name := range names {
			if got := capabilities[name](d); got != inner.has[name] {
				t.Fatalf("of a driver that has %v the wrapper has %s: %v", inner.has, name, got)
			}
		}
	}
}

// The test above knows every capability there is.
func TestCapabilitiesAreAll(t *testing.T) {
	files, err := filepath.Glob("../../slidingttl/driver/*.go")
	ok(t, err)
	var found []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		ok(t, err)
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
