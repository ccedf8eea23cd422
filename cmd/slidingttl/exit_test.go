package main

import (
	"context"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Each exit code that the help lists comes of what the help says, and no other is listed.
func TestExitCodes(t *testing.T) {
	db, uri := sessionsIn(t, 3)
	execute(t, db, "INSERT INTO sessions (id, value) VALUES (?, '{}')", strings.Repeat("k", 300))
	stopped, stop := context.WithCancel(t.Context())
	stop()
	file := filepath.Join(t.TempDir(), "none.db")
	codes := map[int]func() int{}
	do := func(ctx context.Context, args ...string) func() int {
		return func() int {
			return run(ctx, args, streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
		}
	}
	codes[0] = do(t.Context(), "inspect", uri, "user:001", "--policy", thirty)
	codes[exitFailed] = do(t.Context(), "audit", "redis://localhost:1", "--policy", thirty)
	codes[exitUsage] = do(t.Context(), "audit", "sqlite:"+file+"?table=sessions", "--policy", thirty)
	codes[exitStopped] = do(stopped, "audit", uri, "--policy", thirty)
	codes[exitDead] = do(t.Context(), "inspect", uri, "nobody", "--policy", thirty)
	codes[exitPartly] = do(t.Context(), "adopt", uri, "--policy", thirty)
	for want, run := range codes {
		if code := run(); code != want {
			t.Errorf("what is to exit with %d exits with %d", want, code)
		}
	}
	help, _ := command(t, 0, "--help")
	_, help, _ = strings.Cut(help, "Exit codes:")
	listed := regexp.MustCompile(`(?m)^  (\d)  \S`).FindAllStringSubmatch(help, -1)
	for _, line := range listed {
		if n, _ := strconv.Atoi(line[1]); codes[n] == nil {
			t.Errorf("the help lists exit code %d, of which nothing comes", n)
		}
	}
	if len(listed) != len(codes) {
		t.Errorf("the help lists %d exit codes; want %d", len(listed), len(codes))
	}
	version, _ := command(t, 0, "--version")
	if !regexp.MustCompile(`^slidingttl version \S.*\n$`).MatchString(version) {
		t.Errorf("the version is %q", version)
	}
}
