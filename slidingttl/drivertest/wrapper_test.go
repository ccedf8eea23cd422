package drivertest

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
)

// A wrapper that reports what it wraps passes; here it is the driver itself.
func TestRunWrapper(t *testing.T) {
	RunWrapper(t, func(d driver.Driver[Value]) driver.Driver[Value] { return d }, nil)
}

// others are the interfaces of package driver that are never asked for by driver.As. A Learner
// is found by its Clock.
var others = []string{"Codec", "Driver", "Learner", "Wrapper"}

// RunWrapper knows every capability there is.
func TestCapabilitiesAreAll(t *testing.T) {
	files, err := filepath.Glob("../driver/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var found []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is {
				return true
			}
			if _, is := spec.Type.(*ast.InterfaceType); is && !slices.Contains(others, spec.Name.Name) {
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
