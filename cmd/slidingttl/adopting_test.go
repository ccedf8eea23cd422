package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
)

var update = flag.Bool("update", false, "write what commands print into the guides of docs")

// profiles are the documents of docs/adopting.md, as several programs left them.
func profiles(t *testing.T, c *gocb.Collection) {
	t.Helper()
	ago := func(days int) string {
		return time.Now().Add(-time.Duration(days)*24*time.Hour - time.Hour).UTC().Format(time.RFC3339)
	}
	for i := range 1000 {
		profile := map[string]any{"n": i}
		o := &gocb.UpsertOptions{}
		switch {
		case i < 600: // without created_at, for ever
		case i < 850:
			o.Expiry = 45*24*time.Hour + time.Duration(i)*time.Minute
		case i < 950:
			profile["created_at"] = ago(10 + i%70)
		case i < 980:
			profile["created_at"] = time.Now().Add(-20 * 24 * time.Hour).UnixMilli()
		case i < 995:
			profile["created_at"] = ago(100)
		default:
			profile["created_at"] = "unknown"
		}
		if _, err := c.Upsert(fmt.Sprintf("profile:%04d", i), profile, o); err != nil {
			t.Fatal(err)
		}
	}
}

// consoles are the blocks of commands in a document, without their fences.
var consoles = regexp.MustCompile("(?s)```console\n(.*?)```")

// varies is what differs from one run to the next: how long it took, instants, versions.
var varies = regexp.MustCompile(`looked at in [0-9a-zµ.]+|\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC))?|expired \S+ ago|0x[0-9a-f]+|\b[0-9a-f]{16}\b|\d{10,}|\d+ bytes`)

// words of a command line; quotes hold one together.
var words = regexp.MustCompile(`"[^"]*"|\S+`)

// The commands of docs/adopting.md print what it says, one after the other on one store.
func TestAdopting(t *testing.T) {
	n := open(t)
	profiles(t, n.c)
	walk(t, "../../docs/adopting.md", n.uri, 9, func() {})
}

// walk runs the commands of a guide in an empty directory, at least so many, on the store at uri, and wants them
// to print what the guide says; with -update it has it say what they print. made is called when a command has made
// a directory.
func walk(t *testing.T, path, uri string, least int, made func()) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.ReplaceAll(string(content), "\r\n", "\n")
	file, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	ran := 0
	now := consoles.ReplaceAllStringFunc(doc, func(block string) string {
		var b strings.Builder
		for _, step := range strings.Split("\n"+consoles.FindStringSubmatch(block)[1], "\n$ ")[1:] {
			line, output, _ := strings.Cut(step, "\n")
			args := words.FindAllString(line, -1)
			for i := range args {
				args[i] = strings.ReplaceAll(strings.Trim(args[i], `"`), "$STORE", uri)
			}
			switch args[0] {
			case "cat":
				if err := os.WriteFile(args[1], []byte(output), 0o600); err != nil {
					t.Fatal(err)
				}
			case "mkdir":
				mkdir(t, args[1], made)
			case "slidingttl":
				ran++
				var o strings.Builder
				code := run(t.Context(), args[1:], streams{in: strings.NewReader(""), out: &o, err: &o})
				if code != 0 && code != exitDead {
					t.Fatalf("%s\nexits with %d: %s", line, code, &o)
				}
				output = o.String()
			default:
				t.Fatalf("%s is no command of this page", args[0])
			}
			if output = strings.TrimRight(output, "\n"); output != "" {
				output += "\n"
			}
			fmt.Fprintf(&b, "$ %s\n%s", line, output)
		}
		return "```console\n" + b.String() + "```"
	})
	if ran < least {
		t.Errorf("it ran %d commands", ran)
	}
	if *update {
		if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, want := strings.Split(varies.ReplaceAllString(now, "#"), "\n"), strings.Split(varies.ReplaceAllString(doc, "#"), "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s, line %d:\n%s\nwhat is printed:\n%s\nIf that is right: go test -run %s ./cmd/slidingttl -update", path, i+1, want[i], got[i], t.Name())
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s has %d lines, and should have %d", path, len(want), len(got))
	}
}
