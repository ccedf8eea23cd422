package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// setVersion writes a version wherever the next one stands: in go.work, which
// replaces the modules by their directories, and where one requires another.
func (t *tree) setVersion(version string) error {
	if major := semver.Major(version); semver.Canonical(version) != version || major != "v0" && major != "v1" {
		return errors.New("version: must be a v0.x.y or v1.x.y such as v0.2.0")
	}
	for _, m := range t.modules {
		for _, r := range m.file.Require {
			if t.module(r.Mod.Path) == nil {
				continue
			}
			if err := m.file.AddRequire(r.Mod.Path, version); err != nil {
				return err
			}
		}
		text, err := m.file.Format()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(t.root, m.dir, "go.mod"), text, 0o666); err != nil {
			return err
		}
	}
	for _, r := range t.work.Replace {
		if t.module(r.Old.Path) == nil {
			continue
		}
		// AddReplace would move the line to the end of the file.
		if i := slices.Index(r.Syntax.Token, r.Old.Version); i >= 0 {
			r.Syntax.Token[i] = version
		}
	}
	return os.WriteFile(filepath.Join(t.root, "go.work"), modfile.Format(t.work.Syntax), 0o666)
}
