package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// outcome is what became of a mutant, or of any.
type outcome string

const (
	ran          outcome = "ran"
	killed       outcome = "killed   "
	timedOut     outcome = "timed out"
	survived     outcome = "SURVIVED "
	uncovered    outcome = "UNCOVERED"
	unnoticeable outcome = "explained"
	unviable     outcome = "no build "
)

// tests are a package with its tests, and those of other packages.
type tests struct {
	pkg   string
	skip  string
	all   []binary
	place string // the package's folder as the mutants' names have it
	dir   string
	files []string
	work  string // a folder of our own
	bound time.Duration
	// blocks are the statements that the coverage tells of, by file.
	blocks map[string][]block
}

// binary is the tests of one package.
type binary struct{ pkg, dir, path string }

type block struct {
	fromLine, fromCol, toLine, toCol int
	count                            int
}

// newTests runs the tests as they are: they must pass, and show which statements they run.
func newTests(ctx context.Context, pkg string, with []string, skip string) (*tests, error) {
	t := &tests{pkg: pkg, skip: skip, blocks: map[string][]block{}}
	for i, name := range append([]string{pkg}, with...) {
		var p struct {
			Dir          string
			GoFiles      []string
			TestGoFiles  []string
			XTestGoFiles []string
		}
		out, err := exec.CommandContext(ctx, "go", "list", "-json=Dir,GoFiles,TestGoFiles,XTestGoFiles", name).Output()
		if err == nil {
			err = json.Unmarshal(out, &p)
		}
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", name, err)
		}
		if i == 0 {
			t.dir, t.files = p.Dir, p.GoFiles
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			t.all = append(t.all, binary{pkg: name, dir: p.Dir, path: fmt.Sprint("tests", i)})
		}
	}
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if t.place, err = filepath.Rel(wd, t.dir); err != nil {
		return nil, err
	}
	if t.work, err = os.MkdirTemp("", "mutants"); err != nil {
		return nil, err
	}
	// Servers that tests start may run as another user.
	if err := os.Chmod(t.work, 0o755); err != nil {
		return nil, err
	}
	profile := filepath.Join(t.work, "profile")
	for i, b := range t.all {
		t.all[i].path = filepath.Join(t.work, b.path)
		if out, err := t.build(ctx, t.all[i], "-coverpkg="+pkg); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, out)
		}
		began := time.Now()
		if out, err := t.run(ctx, t.all[i], 20*time.Minute, "-test.coverprofile="+profile); err != nil {
			return nil, fmt.Errorf("the tests of %s fail as they are: %w\n%s", b.pkg, err, out)
		}
		// A hang is a kill; a slow moment of the machine is none.
		t.bound = max(t.bound, 10*time.Second+4*time.Since(began))
		if err := t.readProfile(profile); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *tests) close() { _ = os.RemoveAll(t.work) }

func (t *tests) readProfile(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		path, rest, _ := strings.Cut(line, ":")
		var b block
		var n int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.fromLine, &b.fromCol, &b.toLine, &b.toCol, &n, &b.count); err == nil {
			file := filepath.Join(t.dir, filepath.Base(path))
			t.blocks[file] = append(t.blocks[file], b)
		}
	}
	return nil
}

// covered reports whether the tests run m. What is in no block, such as the condition
// of a case, may be.
func (t *tests) covered(m mutant) bool {
	in := false
	for _, b := range t.blocks[m.file] {
		after := m.line > b.fromLine || m.line == b.fromLine && m.col >= b.fromCol
		before := m.line < b.toLine || m.line == b.toLine && m.col < b.toCol
		if after && before {
			if b.count > 0 {
				return true
			}
			in = true
		}
	}
	return !in
}

// try runs the tests on m. by says which test noticed.
func (t *tests) try(ctx context.Context, m mutant) (o outcome, by string, err error) {
	if !t.covered(m) {
		return uncovered, "", nil
	}
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", "", err
	}
	changed := filepath.Join(t.work, "mutant.go")
	if err := os.WriteFile(changed, m.apply(text), 0o644); err != nil {
		return "", "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{m.file: changed}})
	if err != nil {
		return "", "", err
	}
	file := filepath.Join(t.work, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		return "", "", err
	}
	for _, b := range t.all {
		if _, err := t.build(ctx, b, "-overlay="+file); err != nil {
			return unviable, "", ctx.Err()
		}
		out, err := t.run(ctx, b, t.bound, "-test.failfast")
		switch {
		case ctx.Err() != nil:
			return "", "", ctx.Err()
		case err == nil:
			continue
		case errors.Is(err, context.DeadlineExceeded):
			return timedOut, "", nil
		}
		if failed := failedTest.FindSubmatch(out); failed != nil {
			by = "  by " + string(failed[1])
		}
		return killed, by, nil
	}
	return survived, "", nil
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

func (t *tests) build(ctx context.Context, b binary, flag string) ([]byte, error) {
	// Vet has seen the package as it is, and would only refuse mutants.
	return exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", flag, "-o", b.path, b.pkg).CombinedOutput()
}

func (t *tests) run(ctx context.Context, b binary, bound time.Duration, flag string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	temp := filepath.Join(t.work, "temp")
	if err := os.Mkdir(temp, 0o755); err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	cmd := exec.CommandContext(ctx, b.path, flag, "-test.skip="+t.skip)
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), "TMPDIR="+temp)
	cmd.WaitDelay = time.Second // for servers that hold the output open
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out, err
}
