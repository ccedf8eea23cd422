package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var served struct {
	once sync.Once
	dir  string
	*proxy
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(served.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// serveTestTree serves the tree, once for all tests.
func serveTestTree(t *testing.T) *proxy {
	t.Helper()
	s := &served
	s.once.Do(func() {
		var tree *tree
		if s.dir, s.err = os.MkdirTemp("", "modules"); s.err != nil {
			return
		}
		if tree, s.err = readTree(context.Background()); s.err == nil {
			s.proxy, s.err = tree.serve(context.Background(), s.dir)
		}
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.proxy
}

// installed are the modules whose programs TestReleases installs. To link those that
// nobody installs is left to the night; TestReleaseTagsEveryModule installs the command.
var installed []string

// TestReleases has every module tidied, compiled and installed as it will be found
// at its next tag, without go.work.
func TestReleases(t *testing.T) {
	t.Parallel()
	p := serveTestTree(t)
	for _, m := range p.tree.modules {
		t.Run(m.dir, func(t *testing.T) {
			t.Parallel()
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
			// It compiles every package. So does go build, but that links programs too.
			programs, err := p.run(t.Context(), dir, "list", "-export", "-f", `{{if eq .Name "main"}}{{.ImportPath}}@`+p.tree.version+`{{end}}`, "./...")
			if err != nil {
				t.Fatal(err)
			}
			if programs == "" || !within(m.dir, installed...) {
				return
			}
			if _, err := p.run(t.Context(), t.TempDir(), append([]string{"install"}, strings.Fields(programs)...)...); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPinnedProgram checks that a program with sessions in memory keeps the versions of
// everything else that it requires.
func TestPinnedProgram(t *testing.T) {
	t.Parallel()
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
