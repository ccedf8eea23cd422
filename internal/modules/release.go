package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strings"
)

// release tags every module at HEAD with version, a module after those that it requires, and
// writes the tags to out. Without apply it only says what it would tag.
func (t *tree) release(ctx context.Context, out io.Writer, version string, apply bool) error {
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = t.root
		return output(cmd)
	}
	if version != t.version {
		return fmt.Errorf("version: is %q: must be %s, which go.work and the modules name", version, t.version)
	}
	if !strings.Contains(t.read(t.modules[0], "CHANGELOG.md"), "\n## "+version+"\n") {
		return fmt.Errorf("CHANGELOG.md: must have the heading %q", "## "+version)
	}
	changed, err := git("status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return errors.New("the working tree: must have no change that is not committed")
	}
	tags := t.tags(version)
	known, err := git(append([]string{"tag", "--list"}, tags...)...)
	if err != nil {
		return err
	}
	if known != "" {
		return fmt.Errorf("tags: %s must not be there yet", strings.Join(strings.Fields(known), ", "))
	}
	for _, tag := range tags {
		if apply {
			if _, err := git("tag", tag); err != nil {
				return err
			}
		}
		fmt.Fprintln(out, tag)
	}
	if !apply {
		fmt.Fprintln(out, "nothing was tagged: make release VERSION="+version+" APPLY=yes does it")
	} else {
		fmt.Fprintln(out, "now: git push --atomic origin "+strings.Join(tags, " "))
	}
	return nil
}

// tags are the tags of all modules at version, in the order of what they require.
func (t *tree) tags(version string) (tags []string) {
	done := make(map[*mod]bool)
	var add func(m *mod)
	add = func(m *mod) {
		if m == nil || done[m] {
			return
		}
		done[m] = true
		for _, r := range m.file.Require {
			add(t.module(r.Mod.Path))
		}
		tags = append(tags, path.Join(m.dir, version))
	}
	for _, m := range t.modules {
		add(m)
	}
	return tags
}
