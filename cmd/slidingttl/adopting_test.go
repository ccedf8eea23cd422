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

var update = flag.Bool("update", false, "write what commands print into docs/adopting.md")

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
var varies = regexp.MustCompile(`looked at in [0-9a-zµ.]+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC|0x[0-9a-f]+|\d{10,}`)

// words of a command line; quotes hold one together.
var words = regexp.MustCompile(`"[^"]*"|\S+`)

// The commands of docs/adopting.md print what it says, one after the other on one store.
// With -update it says what they print.
func TestAdopting(t *testing.T) {
	const path = "../../docs/adopting.md"
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.ReplaceAll(string(content), "\r\n", "\n")
	file, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	n := open(t)
	profiles(t, n.c)
	t.Chdir(t.TempDir())
	ran := 0
	now := consoles.ReplaceAllStringFunc(doc, func(block string) string {
		var b strings.Builder
		for _, step := range strings.Split("\n"+consoles.FindStringSubmatch(block)[1], "\n$ ")[1:] {
			line, output, _ := strings.Cut(step, "\n")
			args := words.FindAllString(line, -1)
			for i := range args {
				args[i] = strings.ReplaceAll(strings.Trim(args[i], `"`), "$STORE", n.uri)
			}
			switch args[0] {
			case "cat":
				if err := os.WriteFile(args[1], []byte(output), 0o600); err != nil {
					t.Fatal(err)
				}
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
			fmt.Fprintf(&b, "$ %s\n%s\n", line, strings.TrimRight(output, "\n"))
		}
		return "```console\n" + b.String() + "```"
	})
	if ran < 9 {
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
			t.Fatalf("docs/adopting.md, line %d:\n%s\nwhat is printed:\n%s\nIf that is right: go test -run TestAdopting ./cmd/slidingttl -update", i+1, want[i], got[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("docs/adopting.md has %d lines, and should have %d", len(want), len(got))
	}
}
