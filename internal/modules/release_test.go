package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func serveTestTree(t *testing.T) *proxy {
	t.Helper()
	p, err := readTestTree(t).serve(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestReleases has every module tidied, built and installed as it will be found
// at its next tag, without go.work.
func TestReleases(t *testing.T) {
	p := serveTestTree(t)
	for _, m := range p.tree.modules {
		t.Run(m.dir, func(t *testing.T) {
			dir, err := p.copy(m)
			if err != nil {
				t.Fatal(err)
			}
			files, err := p.tidied(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			for name, tidy := range files {
				if tidy != p.tree.read(m, name) {
					t.Errorf("%s is not tidy: run make tidy", filepath.Join(m.dir, name))
				}
			}
			// It compiles every package. So does go build, but that links programs
			// too, which go install is about to do.
			if _, err := p.run(t.Context(), dir, "list", "-export", "./..."); err != nil {
				t.Error(err)
			}
			if _, err := p.run(t.Context(), t.TempDir(), "install", m.path+"/...@"+p.tree.version); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPinnedProgram sees that whoever keeps sessions in memory keeps the versions
// of everything else that he has.
func TestPinnedProgram(t *testing.T) {
	p := serveTestTree(t)
	pins := []string{
		"google.golang.org/grpc v1.70.0",
		"go.opentelemetry.io/otel v1.34.0",
		"github.com/aws/aws-sdk-go-v2/service/dynamodb v1.40.0",
	}
	root := p.tree.modules[0].path
	dir := t.TempDir()
	gomod := "module example.com/pinned\n\ngo " + p.tree.modules[0].file.Go.Version + "\n\n" +
		"require " + root + " " + p.tree.version + "\n"
	program := "package main\n\n"
	for _, pkg := range []string{"slidingttl", "drivers/memory", "middleware/session"} {
		program += "import _ \"" + root + "/" + pkg + "\"\n"
	}
	for _, pin := range pins {
		gomod += "require " + pin + "\n"
		program += "import _ \"" + strings.Fields(pin)[0] + "\"\n"
	}
	program += "\nfunc main() {}\n"
	for name, text := range map[string]string{"go.mod": gomod, "main.go": program} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.run(t.Context(), dir, "mod", "tidy"); err != nil {
		t.Fatal(err)
	}
	for _, pin := range pins {
		got, err := p.run(t.Context(), dir, "list", "-m", strings.Fields(pin)[0])
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(got) != pin {
			t.Errorf("got %swant %s", got, pin)
		}
	}
}

// The README's program works as it stands for who pastes it into an empty folder.
func TestReadmeProgram(t *testing.T) {
	p := serveTestTree(t)
	readme, err := os.ReadFile(filepath.Join(p.tree.root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "builds and runs it: begin -->\n```go\n")
	program, _, ok := strings.Cut(rest, "```\n<!-- end -->")
	if !ok {
		t.Fatal("README.md has no program between its marks")
	}
	dir := t.TempDir()
	root := p.tree.modules[0].path
	gomod := "module example\n\ngo " + p.tree.modules[0].file.Go.Version + "\n\nrequire " + root + " " + p.tree.version + "\n"
	for name, text := range map[string]string{"go.mod": gomod, "main.go": program} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.run(t.Context(), dir, "mod", "tidy"); err != nil {
		t.Fatal(err)
	}
	out, err := p.run(t.Context(), dir, "run", ".")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, `"hello", <nil>`) || !strings.HasSuffix(out, "not found\n") {
		t.Errorf("it printed %s", out)
	}
}
