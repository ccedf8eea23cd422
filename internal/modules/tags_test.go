package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// releaseCopy makes a copy of the tree in which everything is committed, releases that, and
// returns the copy.
func releaseCopy(t *testing.T) (copied *tree, tags []string) {
	t.Helper()
	real := readTestTree(t)
	dir := t.TempDir()
	for _, m := range real.modules {
		for _, f := range m.files {
			text, err := os.ReadFile(filepath.Join(real.root, m.dir, f))
			to := filepath.Join(dir, m.dir, f)
			if err == nil {
				err = os.MkdirAll(filepath.Dir(to), 0o777)
			}
			if err == nil {
				err = os.WriteFile(to, text, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
		if _, err := output(cmd); err != nil {
			t.Fatal(err)
		}
	}
	changelog := filepath.Join(dir, "CHANGELOG.md")
	git("init", "-q")
	git("add", "-A")
	git("commit", "-q", "-m", "all of it")
	copied = real
	copied.root = dir
	refuses := func(version string) {
		t.Helper()
		if err := copied.release(t.Context(), io.Discard, version, true); err == nil {
			t.Errorf("it was released as %s", version)
		}
	}
	refuses("v9.9.9") // the modules require another
	refuses(copied.version)
	text := copied.read(copied.modules[0], "CHANGELOG.md")
	text = strings.Replace(text, "\n## ", "\n## "+copied.version+"\n\n## ", 1)
	if err := os.WriteFile(changelog, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	refuses(copied.version) // the change is not committed
	git("commit", "-q", "-a", "-m", "name it")
	var out strings.Builder
	if err := copied.release(t.Context(), &out, copied.version, false); err != nil || !strings.Contains(out.String(), "nothing was tagged") {
		t.Errorf("said %s, %v", &out, err)
	}
	if err := copied.release(t.Context(), io.Discard, copied.version, true); err != nil {
		t.Fatal(err)
	}
	refuses(copied.version) // it is there
	cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "tag", "--points-at", "HEAD")
	list, err := output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return copied, strings.Fields(list)
}

// Every module has its tag, and the go command finds each of them by the tags alone.
func TestReleaseTagsEveryModule(t *testing.T) {
	t.Parallel()
	copied, tags := releaseCopy(t)
	if len(tags) != len(copied.modules) {
		t.Errorf("%d tags for %d modules", len(tags), len(copied.modules))
	}
	order := make(map[string]int)
	for i, tag := range copied.tags(copied.version) {
		order[tag] = i
	}
	tagOf := func(m *mod) string { return strings.TrimPrefix(m.dir+"/"+copied.version, "./") }
	for _, m := range copied.modules {
		for _, r := range m.file.Require {
			if required := copied.module(r.Mod.Path); required != nil && order[tagOf(required)] > order[tagOf(m)] {
				t.Errorf("%s is tagged before %s, which it requires", m.path, required.path)
			}
		}
	}
	p, err := copied.serve(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// What is fetched now comes from the tags, and not from what p serves.
	own := copied.modules[0].path
	env := append(p.env, "GOPROXY=direct", "GONOSUMDB="+own, "GOMODCACHE="+t.TempDir(),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+copied.root+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+own)
	for _, m := range copied.modules {
		cmd := exec.CommandContext(t.Context(), "go", "mod", "download", m.path+"@"+copied.version)
		cmd.Dir, cmd.Env = t.TempDir(), env
		if _, err := output(cmd); err != nil {
			t.Error(err)
		}
	}
}
