package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// program writes a document's program into an empty folder, and returns the commands that
// stand above it, to be run there.
func (p *proxy) program(t *testing.T, document string, changes ...string) *exec.Cmd {
	t.Helper()
	text := p.tree.read(p.tree.modules[0], document)
	_, rest, _ := strings.Cut(text, "<!-- a test does what follows: begin -->\n")
	commands, rest, _ := strings.Cut(rest, "```go\n")
	program, _, ok := strings.Cut(rest, "```\n<!-- end -->")
	if !ok {
		t.Fatalf("%s has no program between its marks", document)
	}
	dir := t.TempDir()
	program = strings.NewReplacer(changes...).Replace(program)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands)
	cmd.Dir, cmd.Env = dir, p.env
	return cmd
}

// The README's program works in an empty folder by the commands that stand above it.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	out, err := output(serveTestTree(t).program(t, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, `"hello", <nil>`) || !strings.HasSuffix(out, "not found\n") {
		t.Errorf("it printed %s", out)
	}
}

// The server of middleware/README.md works in an empty folder by the commands above it, and
// counts a browser's visits.
func TestSessionsProgram(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("localhost:%d", l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := serveTestTree(t).program(t, "middleware/README.md", "localhost:8080", address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run has a child
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); !strings.Contains(line, "open http://"+address) {
		end()
		t.Fatalf("it says %q, %v\n%s", line, err, &said)
	}
	defer end()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	for _, want := range []string{"visit 1; ", "visit 2; "} {
		r, err := browser.Get("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || !strings.HasPrefix(string(body), want) {
			t.Fatalf("answers %q, %v, want %q", body, err, want)
		}
	}
}
