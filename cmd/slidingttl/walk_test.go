package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what commands print into the guides of docs, and into testdata")

// consoles are the blocks of commands in a document, without their fences.
var consoles = regexp.MustCompile("(?s)```console\n(.*?)```")

// varies is what differs from one run to the next: how long it took, instants, versions.
var varies = regexp.MustCompile(`looked at in [0-9a-zµ.]+(, at a cost of [0-9.,]+)?|cap for \w+:|\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC))?|expired \S+ ago|0x[0-9a-f]+|\b[0-9a-f]{16}\b|\d{10,}|RequestID: [0-9a-f-]+|\d+ bytes|[0-9.]+ MB`)

// words of a command line; quotes hold one together.
var words = regexp.MustCompile(`"[^"]*"|\S+`)

// guide is a document whose commands print what it says, run one after the other in a directory
// that is empty at first.
type guide struct {
	path  string            // of the document
	uri   string            // in the place of $STORE
	files map[string]string // what cat writes of a file, in the place of what the guide shows
	made  func()            // called when mkdir has run: what a program of the reader's would then do
	least int               // commands of slidingttl that it has, at least

	// transcript is the file that has what the commands print on this store. Empty: the guide
	// itself has it.
	transcript string
}

// walk runs the commands of g, and wants them to print what the guide or the transcript says; with
// -update it has that say what they print.
func (g guide) walk(t *testing.T) {
	t.Helper()
	doc := strings.ReplaceAll(string(must(os.ReadFile(g.path))(t)), "\r\n", "\n")
	shown, file := doc, must(filepath.Abs(g.path))(t)
	if g.transcript != "" {
		content, err := os.ReadFile(g.transcript)
		if err != nil && !*update {
			t.Fatal(err)
		}
		shown, file = string(content), must(filepath.Abs(g.transcript))(t)
	}
	t.Chdir(t.TempDir())
	var all strings.Builder
	ran, code := 0, 0
	now := consoles.ReplaceAllStringFunc(doc, func(block string) string {
		var b strings.Builder
		steps := strings.Split("\n"+consoles.FindStringSubmatch(block)[1], "\n$ ")[1:]
		for i, step := range steps {
			line, output, _ := strings.Cut(step, "\n")
			judged := i+1 < len(steps) && strings.HasPrefix(steps[i+1], "echo $?")
			if strings.HasPrefix(line, "slidingttl ") {
				ran++
				output, code = g.run(t, line)
				if code != 0 && code != exitDead && code != exitPartly && !judged {
					t.Fatalf("%s\nexits with %d: %s", line, code, output)
				}
			} else {
				output = g.other(t, line, output, code)
			}
			if output = strings.TrimRight(output, "\n"); output != "" {
				output += "\n"
			}
			fmt.Fprintf(&b, "$ %s\n%s", line, output)
		}
		all.WriteString(b.String())
		return "```console\n" + b.String() + "```"
	})
	if ran < g.least {
		t.Errorf("it ran %d commands", ran)
	}
	if g.transcript != "" {
		now = all.String()
	}
	if *update {
		if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, want := strings.Split(varies.ReplaceAllString(now, "#"), "\n"), strings.Split(varies.ReplaceAllString(shown, "#"), "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s, line %d:\n%s\nwhat is printed:\n%s\nIf that is right: go test -run %s ./cmd/slidingttl -update", file, i+1, want[i], got[i], t.Name())
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s has %d lines, and should have %d", file, len(want), len(got))
	}
}

// run runs a line of slidingttl.
func (g guide) run(t *testing.T, line string) (output string, code int) {
	t.Helper()
	args := words.FindAllString(line, -1)
	for i := range args {
		args[i] = strings.ReplaceAll(strings.Trim(args[i], `"`), "$STORE", g.uri)
	}
	var o strings.Builder
	code = run(t.Context(), args[1:], streams{in: strings.NewReader(""), out: &o, err: &o})
	return o.String(), code
}

// other runs a line of another command, which the guide shows to print output. code is that of the
// last command.
func (g guide) other(t *testing.T, line, output string, code int) string {
	t.Helper()
	switch args := strings.Fields(line); args[0] {
	case "echo": // $?
		return fmt.Sprint(code)
	case "cat":
		written := output
		if instead, ok := g.files[args[1]]; ok {
			written = instead
		}
		if err := os.WriteFile(args[1], []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
		return written
	case "mkdir":
		if err := os.Mkdir(args[1], 0o700); err != nil {
			t.Fatal(err)
		}
		g.made()
		return ""
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-e", "-c", line).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	return string(out)
}
