package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// A rule says what of this repository a package may import, and its tests
// beside that. Paths are from the root; "x/..." is x and all below it, and * is
// one element.
type rule struct {
	pkg   string
	own   []string
	tests []string
	light bool // depends on nothing that the root module does not need
	bare  bool // depends on nothing outside the standard library and this repository
}

// The first rule that speaks of a package holds. Calls go from the caller through
// the store to the driver, so nothing imports what stands above it.
var rules = []rule{
	{pkg: "slidingttl/driver", bare: true},
	{pkg: "slidingttl/policy", own: []string{"slidingttl/driver"}, tests: []string{"slidingttl/internal/rules", "internal/spec"}, bare: true},
	{pkg: "slidingttl/internal/tally", bare: true},
	{pkg: "slidingttl/internal/fakestore", own: []string{"slidingttl/driver"}, bare: true},
	{pkg: "slidingttl/internal/rules", own: []string{"slidingttl/driver", "slidingttl/policy"}},
	{pkg: "slidingttl/internal/touches", own: []string{"slidingttl/driver", "slidingttl/internal/rules", "slidingttl/internal/tally"}, tests: []string{"slidingttl/policy"}},
	{
		pkg:   "slidingttl",
		own:   []string{"slidingttl/driver", "slidingttl/policy", "slidingttl/internal/rules", "slidingttl/internal/tally", "slidingttl/internal/touches", "internal/hook"},
		tests: []string{"drivers/memory", "slidingttl/internal/fakestore", "internal/spec/..."},
	},
	{pkg: "slidingttl/drivertest", own: []string{"slidingttl", "slidingttl/driver", "slidingttl/internal/fakestore", "internal/hostile"}, tests: []string{"drivers/memory"}},
	{pkg: "slidingttl/internal/explore", tests: []string{"slidingttl", "slidingttl/driver", "drivers/memory", "slidingttl/internal/touches", "slidingttl/internal/fakestore"}}, // it orders their locks
	{
		pkg:   "slidingttl/upkeep",
		own:   []string{"slidingttl", "slidingttl/driver", "internal/field", "internal/hook", "internal/retry", "internal/sheet", "internal/verdict"},
		tests: []string{"drivers/memory", "internal/survey", "internal/walktest"},
	},
	{pkg: "slidingttl/policyfile", own: []string{"slidingttl", "slidingttl/driver", "internal/hook"}, tests: []string{"drivers/memory"}},
	{pkg: "slidingttl/...", own: []string{"slidingttl", "slidingttl/driver"}, tests: []string{"drivers/memory", "internal/hostile", "slidingttl/internal/fakestore"}},
	{pkg: "internal/survey", own: []string{"slidingttl", "slidingttl/driver", "slidingttl/upkeep", "internal/retry", "internal/sheet", "internal/verdict"}, tests: []string{"internal/walktest"}},
	{pkg: "internal/walktest", own: []string{"slidingttl/driver", "drivers/memory"}},
	{pkg: "internal/verdict", own: []string{"slidingttl", "slidingttl/driver"}},
	{pkg: "internal/hook", own: []string{"slidingttl/driver"}, bare: true},
	{pkg: "internal/kit", own: []string{"slidingttl/driver"}, bare: true},
	{pkg: "internal/retry", own: []string{"slidingttl/driver"}, bare: true},
	{pkg: "internal/field", bare: true},
	{pkg: "internal/keytext", own: []string{"slidingttl/driver"}, bare: true},
	{pkg: "internal/sheet", bare: true},
	{pkg: "internal/hostile", bare: true},
	{pkg: "internal/anyvalue", own: []string{"slidingttl", "slidingttl/driver"}, tests: []string{"internal/kit"}},
	{pkg: "internal/chart", bare: true},
	{pkg: "internal/spec", bare: true}, // nothing of what its vectors judge
	{pkg: "internal/spec/check", own: []string{"slidingttl", "slidingttl/driver", "internal/spec"}},
	{pkg: "internal/golden", own: []string{"slidingttl", "slidingttl/driver", "slidingttl/drivertest"}},

	{pkg: "drivers/memory", own: []string{"slidingttl/driver", "internal/hook", "internal/kit"}, tests: []string{"slidingttl/...", "internal/spec/..."}, bare: true},
	{pkg: "drivers/*/*test"},
	{pkg: "drivers/redis/goredis", own: []string{"slidingttl/driver", "internal/hook", "drivers/redis"}, tests: []string{"slidingttl/...", "drivers/redis/..."}},
	{pkg: "drivers/sql/pgxsql", own: []string{"slidingttl/driver", "drivers/sql"}, tests: []string{"slidingttl/...", "drivers/sql/..."}},
	{pkg: "drivers/*", own: []string{"slidingttl/driver", "internal/hook", "internal/kit"}, tests: []string{"slidingttl/...", "drivers/memory", "internal/hostile", "internal/golden", "internal/anyvalue", "internal/spec/...", "internal/survey", "internal/verdict"}},
	{pkg: "drivers/...", own: []string{"slidingttl/driver"}},

	{pkg: "middleware/grpc", own: []string{"slidingttl", "middleware/session"}, tests: []string{"slidingttl/driver", "drivers/memory"}},
	{pkg: "middleware/gorillastore", own: []string{"slidingttl", "slidingttl/driver", "middleware/session"}, tests: []string{"drivers/memory"}},
	{pkg: "middleware/touch", own: []string{"slidingttl", "internal/hook"}, tests: []string{"slidingttl/driver", "drivers/memory"}},
	{pkg: "middleware/session", own: []string{"slidingttl", "slidingttl/driver", "drivers/memory", "internal/kit"}},
	{pkg: "middleware/...", own: []string{"slidingttl", "slidingttl/driver", "drivers/memory"}},
	{pkg: "internal/metrics", own: []string{"slidingttl", "slidingttl/driver"}},
	{pkg: "telemetry/...", own: []string{"slidingttl", "slidingttl/driver", "internal/metrics"}, tests: []string{"slidingttl/...", "drivers/...", "telemetry/..."}},
	{pkg: "archive", own: []string{"slidingttl/...", "internal/field", "internal/keytext"}, tests: []string{"drivers/..."}},
	{pkg: "archive/...", own: []string{"slidingttl/...", "archive", "archive/s3"}, tests: []string{"drivers/..."}},
	{pkg: "cmd/...", own: []string{"slidingttl/...", "drivers/...", "archive/...", "middleware/session", "internal/chart", "internal/keytext", "internal/survey", "internal/verdict"}, tests: []string{"internal/hostile"}},

	{pkg: "examples/quickstart/...", own: []string{"slidingttl/...", "drivers/memory", "examples/quickstart/..."}, light: true},
	{pkg: "examples/bboltdriver", own: []string{"slidingttl/driver"}, tests: []string{"slidingttl/..."}},
	{pkg: "examples/...", own: []string{"slidingttl/...", "drivers/...", "middleware/...", "telemetry/...", "archive/...", "examples/quickstart/show"}},
	{pkg: "bench/...", own: []string{"slidingttl/...", "drivers/...", "middleware/...", "telemetry/...", "bench/...", "internal/chart"}},
	{pkg: "internal/integration/...", tests: []string{"slidingttl/...", "drivers/...", "middleware/...", "telemetry/...", "archive/...", "internal/survey"}},
	{pkg: "internal/modules"},
	{pkg: "internal/mutants", bare: true},
}

// within reports whether a pattern of a rule covers a package.
func within(pkg string, patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if below, ok := strings.CutSuffix(pattern, "/..."); ok {
			return pkg == below || strings.HasPrefix(pkg, below+"/")
		}
		ok, _ := path.Match(pattern, pkg)
		return ok
	})
}

func TestImportRules(t *testing.T) {
	tree := readTestTree(t)
	root := tree.modules[0].path
	for _, p := range listPackages(t, tree) {
		pkg := strings.TrimPrefix(p.ImportPath, root+"/")
		i := slices.IndexFunc(rules, func(r rule) bool { return within(pkg, r.pkg) })
		if i < 0 {
			t.Errorf("no rule says what %s may import", pkg)
			continue
		}
		rule := rules[i]
		ours := func(imports []string) (names []string) {
			for _, name := range imports {
				// Where the other internal packages may be imported the compiler says.
				if rest, ok := strings.CutPrefix(name, root+"/"); ok && (!strings.Contains(rest, "/internal/") || strings.HasPrefix(rest, "slidingttl/internal/")) {
					names = append(names, rest)
				}
			}
			return names
		}
		for _, name := range ours(p.Imports) {
			if !within(name, rule.own...) {
				t.Errorf("%s imports %s; it may import %q", pkg, name, rule.own)
			}
		}
		allowed := slices.Concat(rule.own, rule.tests, []string{pkg + "/..."})
		for _, name := range ours(slices.Concat(p.TestImports, p.XTestImports)) {
			if !within(name, allowed...) {
				t.Errorf("the tests of %s import %s; they may import %q", pkg, name, allowed)
			}
		}
		for _, name := range p.Deps {
			std := !strings.Contains(strings.SplitN(name, "/", 2)[0], ".")
			small := !rule.bare && within(name, "golang.org/x/sync/...", "golang.org/x/time/...")
			if (rule.bare || rule.light || p.Module.Path == root) && !std && !small && !within(name, root+"/...") {
				t.Errorf("%s depends on %s", pkg, name)
			}
		}
	}
}

// A listed package is what go list tells of one.
type listed struct {
	ImportPath                               string
	Module                                   struct{ Path string }
	Imports, TestImports, XTestImports, Deps []string
}

// listPackages returns every package of the tree.
func listPackages(t *testing.T, tree *tree) []listed {
	t.Helper()
	args := []string{"list", "-tags", "browser", "-json=ImportPath,Module,Imports,TestImports,XTestImports,Deps"}
	for _, m := range tree.modules {
		args = append(args, "./"+m.dir+"/...")
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = tree.root
	out, err := output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
