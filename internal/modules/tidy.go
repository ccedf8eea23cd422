package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tidied runs go mod tidy in a copy of a module and returns the go.mod and
// go.sum that it leaves there. The sums of the tree's own modules are left
// out: they change with every commit until there is a tag.
func (p *proxy) tidied(ctx context.Context, dir string) (map[string]string, error) {
	if _, err := p.run(ctx, dir, "mod", "tidy"); err != nil {
		return nil, err
	}
	files := make(map[string]string)
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool {
			path, _, _ := strings.Cut(line, " ")
			return name == "go.sum" && p.tree.module(path) != nil
		})
		files[name] = strings.Join(lines, "")
	}
	return files, nil
}

// tidy mends every go.mod and go.sum of the tree. What one module requires
// can change what is needed by another, so it goes on until nothing changes.
func (t *tree) tidy(ctx context.Context) error {
	for {
		changed, err := t.tidyOnce(ctx)
		if err != nil || !changed {
			return err
		}
	}
}

func (t *tree) tidyOnce(ctx context.Context) (changed bool, err error) {
	scratch, err := os.MkdirTemp("", "modules")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	p, err := t.serve(ctx, scratch)
	if err != nil {
		return false, err
	}
	for _, m := range t.modules {
		dir, err := p.copy(m)
		if err != nil {
			return false, err
		}
		files, err := p.tidied(ctx, dir)
		if err != nil {
			return false, err
		}
		for name, text := range files {
			if text == t.read(m, name) {
				continue
			}
			changed = true
			fmt.Println("tidied", filepath.Join(m.dir, name))
			if err := os.WriteFile(filepath.Join(t.root, m.dir, name), []byte(text), 0o666); err != nil {
				return false, err
			}
		}
	}
	return changed, nil
}

// read returns a file of a module, "" if there is none.
func (t *tree) read(m *mod, name string) string {
	text, _ := os.ReadFile(filepath.Join(t.root, m.dir, name))
	return string(text)
}
