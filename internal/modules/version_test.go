package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSetVersion(t *testing.T) {
	tree := readTestTree(t)
	old, real := tree.version, tree.root
	tree.root = t.TempDir()
	for _, m := range tree.modules {
		if err := os.MkdirAll(filepath.Join(tree.root, m.dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"", "v1", "1.2.3", "v2.0.0", "v0.99.0+meta"} {
		if err := tree.setVersion(bad); err == nil {
			t.Errorf("version %q was accepted", bad)
		}
	}
	if err := tree.setVersion("v0.99.0"); err != nil {
		t.Fatal(err)
	}
	names := []string{"go.work"}
	for _, m := range tree.modules {
		names = append(names, filepath.Join(m.dir, "go.mod"))
	}
	own := tree.modules[0].path
	for _, name := range names {
		before, err := os.ReadFile(filepath.Join(real, name))
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(filepath.Join(tree.root, name))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(before), "\n")
		for i, line := range lines {
			if strings.Contains(line, own) {
				lines[i] = strings.Replace(line, " "+old, " v0.99.0", 1)
			}
		}
		if want := strings.Join(lines, ""); string(after) != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, after, want)
		}
	}
}
