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
	changelog := filepath.Join(dir, "CHANGELOG.md")
	text := copied.read(copied.modules[0], "CHANGELOG.md")
	heading := "\n## " + copied.version + "\n"
	if !strings.Contains(text, heading) { // nothing has changed since the last release
		text = strings.Replace(text, "\n## ", heading+"\n## ", 1)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(changelog, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(text, heading, "\n## Another\n", 1))
	git("commit", "-q", "-a", "-m", "have no heading")
	refuses(copied.version)
	write(text)
	refuses(copied.version) // the change is not committed
	git("commit", "-q", "-a", "-m", "name it")
	makeRelease := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "make", append([]string{"-s", "release", "VERSION=" + copied.version}, args...)...)
		cmd.Dir = dir
		out, err := output(cmd)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := makeRelease(); !strings.Contains(out, "nothing was tagged") {
		t.Errorf("make release said %s", out)
	}
	makeRelease("APPLY=yes")
	refuses(copied.version) // it is there
	cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "tag", "--points-at", "HEAD")
	list, err := output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return copied, strings.Fields(list)
}

// Every module has its tag, and the go command finds each of them by the tags alone. What it keeps
// of them is a proxy in plain files, by which a new user gets each module, and the programs, in an empty folder.
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
	fetched := t.TempDir()
	env := append(p.env, "GOPROXY=direct", "GONOSUMDB="+own, "GOMODCACHE="+fetched,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+copied.root+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+own)
	for _, m := range copied.modules {
		cmd := exec.CommandContext(t.Context(), "go", "mod", "download", m.path+"@"+copied.version)
		cmd.Dir, cmd.Env = t.TempDir(), env
		if _, err := output(cmd); err != nil {
			t.Error(err)
		}
	}
	out, err := output(exec.CommandContext(t.Context(), "go", "env", "GOPROXY"))
	if err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "GOPROXY=file://"+filepath.Join(fetched, "cache", "download")+","+out)
	for _, m := range copied.modules {
		t.Run(m.dir, func(t *testing.T) { getModule(t, p, m) })
	}
}

// getModule does in an empty folder what the install table of the README says, and compiles a program
// that imports what the module has at its root. A program of the module is installed.
func getModule(t *testing.T, p *proxy, m *mod) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := p.run(t.Context(), dir, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	query := m.path
	if m.dir == "." {
		query += "/..."
	}
	run("mod", "init", "example")
	run("get", query)
	if got, want := strings.TrimSpace(run("list", "-m", m.path)), m.path+" "+p.tree.version; got != want {
		t.Errorf("go get brings %s, want %s", got, want)
	}
	program := "package main\n\n"
	installs := false
	for _, line := range strings.Split(strings.TrimSpace(run("list", "-e", "-f", "{{if .Name}}{{.Name}} {{.ImportPath}}{{end}}", query)), "\n") {
		name, pkg, _ := strings.Cut(line, " ")
		switch {
		case name == "main":
			installs = within(m.dir, "cmd/...")
		case name != "" && !strings.Contains(pkg+"/", "/internal/"):
			program += "import _ \"" + pkg + "\"\n"
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program+"\nfunc main() {}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	run("vet", ".")
	if installs {
		run("install", m.path+"@"+p.tree.version)
	}
}
