package main

import (
	"os"
	"path/filepath"
	"testing"
)

// No command takes a directory above or inside an archive for one: what is asked of it would hold for nothing.
func TestArchiveNearAnother(t *testing.T) {
	root := t.TempDir()
	dead := filepath.Join(root, "eu", "links", "dead")
	for _, dir := range []string{"day=2026-11-22", "checkpoints"} {
		if err := os.MkdirAll(filepath.Join(dead, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	empty := filepath.Join(t.TempDir(), "new")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, fits := range map[string]bool{
		dead: true, empty: true,
		root: false, filepath.Join(root, "eu"): false, filepath.Join(root, "eu", "links"): false, filepath.Join(dead, "checkpoints"): false,
	} {
		for _, args := range [][]string{
			{"list", path}, {"stats", path}, {"verify", path}, {"compact", path}, {"repair", path},
			{"forget", path, "user:42:1"}, {"find", path, "user:42:1"},
		} {
			code := exitUsage
			if fits {
				if code = 0; args[0] == "find" {
					code = exitDead
				}
			}
			command(t, code, append([]string{"archive"}, args...)...)
		}
	}
}
