package slidingttl_test

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/slidingttl/slidingttl"

// deps returns what a package needs to be built, tests aside, and of the module
// itself only what it imports directly.
func deps(t *testing.T, pkg string) (all, own []string) {
	t.Helper()
	list := func(args ...string) []string {
		out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
		if err != nil {
			t.Fatalf("go list %v: %v", args, err)
		}
		return strings.Fields(string(out))
	}
	all = list("-deps", pkg)
	for _, d := range list("-f", `{{join .Imports "\n"}}`, pkg) {
		if strings.HasPrefix(d, module) {
			own = append(own, strings.TrimPrefix(d, module+"/"))
		}
	}
	return all, own
}

// TestImportRules holds the house together: calls go from the caller through the
// store to the driver, the core knows no driver and no cloud SDK, and a driver
// knows nothing of the core but what a driver must offer.
func TestImportRules(t *testing.T) {
	std := func(path string) bool { return !strings.Contains(strings.SplitN(path, "/", 2)[0], ".") }
	within := func(path string, prefixes ...string) bool {
		for _, p := range prefixes {
			if path == p || strings.HasPrefix(path, p+"/") {
				return true
			}
		}
		return false
	}
	for _, tt := range []struct {
		pkg     string
		own     []string // packages of this module it may import
		outside []string // modules outside it may depend on, nil: any
	}{
		{"slidingttl/driver", nil, []string{}},
		{"slidingttl", []string{"slidingttl/driver"}, []string{"golang.org/x/sync"}},
		{"slidingttl/policyfile", []string{"slidingttl"}, []string{"golang.org/x/sync"}},
		{"slidingttl/drivertest", []string{"slidingttl", "slidingttl/driver"}, []string{"golang.org/x/sync"}},
		{"drivers/memory", []string{"slidingttl/driver"}, []string{}},
		{"drivers/couchbase", []string{"slidingttl/driver"}, nil},
		{"drivers/dynamodb", []string{"slidingttl/driver"}, nil},
		{"middleware/session", []string{"slidingttl", "slidingttl/driver", "middleware/internal"}, []string{"golang.org/x/sync"}},
		{"middleware/touch", []string{"slidingttl", "slidingttl/driver", "middleware/internal"}, []string{"golang.org/x/sync"}},
	} {
		t.Run(tt.pkg, func(t *testing.T) {
			all, own := deps(t, module+"/"+tt.pkg)
			for _, d := range own {
				if !within(d, tt.own...) {
					t.Errorf("%s imports %s", tt.pkg, d)
				}
			}
			for _, d := range all {
				if tt.outside != nil && !std(d) && !within(d, module) && !within(d, tt.outside...) {
					t.Errorf("%s depends on %s", tt.pkg, d)
				}
			}
		})
	}
}
