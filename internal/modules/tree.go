package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// A tree is the repository's working tree, as far as git tracks it.
type tree struct {
	root    string // its directory
	version string // what the next tags give: the one by which go.work replaces the root module
	work    *modfile.WorkFile
	modules []*mod // the root module first
}

// A mod is one module of the tree.
type mod struct {
	dir   string // slash-separated, from the root; "." for the root module
	path  string
	file  *modfile.File
	files []string // what it consists of, slash-separated, from its directory
}

// readTree reads the tree around the working directory.
func readTree(ctx context.Context) (*tree, error) {
	root, err := output(exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel"))
	if err != nil {
		return nil, err
	}
	t := &tree{root: strings.TrimSpace(root)}
	ls := exec.CommandContext(ctx, "git", "ls-files", "-z", "--deduplicate")
	ls.Dir = t.root
	list, err := output(ls)
	if err != nil {
		return nil, err
	}
	var files []string
	for f := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		if _, err := os.Stat(filepath.Join(t.root, f)); errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and git not told yet
		}
		files = append(files, f)
		if path.Base(f) == "go.mod" {
			if err := t.addModule(path.Dir(f)); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range files {
		m := t.owner(f)
		m.files = append(m.files, strings.TrimPrefix(f, m.dir+"/"))
	}
	return t, t.readWork()
}

func (t *tree) addModule(dir string) error {
	name := path.Join(dir, "go.mod")
	text, err := os.ReadFile(filepath.Join(t.root, name))
	if err != nil {
		return err
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		return err
	}
	m := &mod{dir: dir, path: file.Module.Mod.Path, file: file}
	if dir == "." {
		t.modules = append([]*mod{m}, t.modules...)
	} else {
		t.modules = append(t.modules, m)
	}
	return nil
}

// owner returns the innermost module around a file.
func (t *tree) owner(file string) *mod {
	owner := t.modules[0]
	for _, m := range t.modules[1:] {
		if strings.HasPrefix(file, m.dir+"/") && len(m.dir) > len(owner.dir) {
			owner = m
		}
	}
	return owner
}

// module returns the module of that path, nil if it is none of ours.
func (t *tree) module(path string) *mod {
	for _, m := range t.modules {
		if m.path == path {
			return m
		}
	}
	return nil
}

func (t *tree) readWork() error {
	text, err := os.ReadFile(filepath.Join(t.root, "go.work"))
	if err != nil {
		return err
	}
	if t.work, err = modfile.ParseWork("go.work", text, nil); err != nil {
		return err
	}
	for _, r := range t.work.Replace {
		if r.Old.Path == t.modules[0].path {
			t.version = r.Old.Version
		}
	}
	if t.version == "" {
		return fmt.Errorf("go.work does not replace any version of %s", t.modules[0].path)
	}
	return nil
}

// output runs a command and returns what it printed; an error tells what the
// command said of it.
func output(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &stderr)
	}
	return string(out), nil
}
