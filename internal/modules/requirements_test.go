package main

import (
	"path"
	"slices"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

func readTestTree(t *testing.T) *tree {
	t.Helper()
	tree, err := readTree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestRequirements holds the go.mod files to what a release needs, and go.work
// to what work before it needs.
func TestRequirements(t *testing.T) {
	tree := readTestTree(t)
	root := tree.modules[0]
	for _, r := range root.file.Require {
		if !slices.Contains([]string{"golang.org/x/sync", "golang.org/x/time", "go.uber.org/goleak"}, r.Mod.Path) {
			t.Errorf("the root module requires %s, which raises it in the build of every user", r.Mod.Path)
		}
	}
	required := make(map[string]bool)
	for _, m := range tree.modules {
		if want := path.Join(root.path, m.dir); m.path != want {
			t.Errorf("the module in %s is %s, want %s", m.dir, m.path, want)
		}
		if got, want := m.file.Go.Version, root.file.Go.Version; got != want {
			t.Errorf("%s: go %s, want the root module's %s", m.dir, got, want)
		}
		if len(m.file.Replace)+len(m.file.Exclude) > 0 {
			t.Errorf("%s replaces or excludes modules: then go install refuses it at a version", m.dir)
		}
		for _, r := range m.file.Require {
			if tree.module(r.Mod.Path) == nil {
				continue
			}
			required[r.Mod.Path] = true
			if r.Mod.Version != tree.version {
				t.Errorf("%s requires %s, want the %s of go.work", m.dir, r.Mod, tree.version)
			}
		}
		if !slices.ContainsFunc(tree.work.Use, func(u *modfile.Use) bool { return path.Clean(u.Path) == m.dir }) {
			t.Errorf("go.work does not use ./%s", m.dir)
		}
	}
	for _, m := range tree.modules {
		replaced := slices.ContainsFunc(tree.work.Replace, func(r *modfile.Replace) bool {
			return r.Old.Path == m.path && r.Old.Version == tree.version && path.Clean(r.New.Path) == m.dir
		})
		if required[m.path] && !replaced {
			t.Errorf("go.work has no replace %s %s => ./%s, which go list -m needs", m.path, tree.version, m.dir)
		}
	}
}

// mended is the first version of a module without the faults that were known of it when this was
// written (GO-2026-4762 and 6061 of grpc, for instance). What a module of this tree requires is what
// a fresh go get selects; go.work hides it here, and from govulncheck.
var mended = map[string]string{
	"github.com/klauspost/compress": "v1.18.7",
	"github.com/quic-go/quic-go":    "v0.59.1",
	"go.opentelemetry.io/otel":      "v1.44.0",
	"go.opentelemetry.io/otel/sdk":  "v1.44.0",
	"golang.org/x/net":              "v0.56.0",
	"golang.org/x/sys":              "v0.44.0",
	"golang.org/x/text":             "v0.39.0",
	"google.golang.org/grpc":        "v1.82.1",
}

// TestFloors: no module requires a version with a known fault.
func TestFloors(t *testing.T) {
	for _, m := range readTestTree(t).modules {
		for _, r := range m.file.Require {
			if least := mended[r.Mod.Path]; least != "" && semver.Compare(r.Mod.Version, least) < 0 {
				t.Errorf("%s requires %s, which has known faults: require at least %s", m.dir, r.Mod, least)
			}
		}
	}
}
