package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// guided is a step of a guide: a file to write, or commands with what they print.
var guided = regexp.MustCompile("(?ms)^`([a-z_]+\\.go)`[^`]*:\n\n```go\n(.*?)^```$|^```console\n(.*?)^```$")

// withRace has the commands of a guide run as they stand there. In the gate they run without the race detector,
// for which the SDK would be compiled once more, at its next version: examples/bboltdriver has the
// same files and tests, and runs under it.
var withRace bool

// docs/writing-a-driver.md leads from an empty folder to a driver that keeps the contract, which
// is the one in examples/bboltdriver.
func TestWritingADriver(t *testing.T) {
	t.Parallel()
	p := serveTestTree(t)
	root := p.tree.modules[0]
	dir := t.TempDir()
	written := 0
	for _, step := range guided.FindAllStringSubmatch(p.tree.read(root, "docs/writing-a-driver.md"), -1) {
		name, content, console := step[1], step[2], step[3]
		if name == "" {
			followConsole(t, p, dir, console)
			continue
		}
		if p.tree.read(root, "examples/bboltdriver/"+name) != content {
			t.Errorf("the guide's %s is not that of examples/bboltdriver", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		written++
	}
	if written == 0 {
		t.Error("the guide writes no file")
	}
}

// followConsole runs each command of a console in a directory, and wants every line below it to
// be a part of what it prints. A command fails if it prints FAIL there.
func followConsole(t *testing.T, p *proxy, dir, console string) {
	t.Helper()
	for _, step := range strings.Split("\n"+console, "\n$ ")[1:] {
		command, prints, _ := strings.Cut(strings.TrimSpace(step), "\n")
		if !withRace {
			command = strings.Replace(command, "go test -race ", "go test ", 1)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", command)
		cmd.Dir, cmd.Env = dir, p.env
		out, err := cmd.CombinedOutput()
		if fails := strings.Contains(prints, "FAIL"); fails != (err != nil) {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		for line := range strings.SplitSeq(prints, "\n") {
			if line != "..." && !strings.Contains(string(out), line) {
				t.Errorf("%s does not print %q, but\n%s", command, line, out)
			}
		}
	}
}
