package sqltest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// find returns the path of a program: from the PATH, or the last match of patterns.
func find(name string, patterns ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return filepath.EvalSymlinks(path)
	}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		if len(paths) > 0 {
			slices.Sort(paths)
			return paths[len(paths)-1], nil
		}
	}
	return "", fmt.Errorf("no program %s: %w", name, errNotInstalled)
}

var errNotInstalled = errors.New("not installed")

// beside returns the program of that name in another program's directory.
func beside(other, name string) string { return filepath.Join(filepath.Dir(other), name) }

// temporary makes a directory that user owns.
func temporary(u *owner) (string, error) {
	dir, err := os.MkdirTemp("", "sqltest-") // short: a socket's path holds 107 bytes
	if err != nil || u == nil {
		return dir, err
	}
	return dir, os.Chown(dir, int(u.uid), int(u.gid))
}
