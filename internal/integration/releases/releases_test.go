//go:build night

package releases

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
)

// before is the release that was.
const before = "4e58a98"

// TestBeside has both programs read and write the same records at once: no answer is an error,
// each access is kept its promise, no update is lost, and created_at stays.
func TestBeside(t *testing.T) {
	old := buildBefore(t)
	today, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []string{"redis", "postgres", "dynamodb"} {
		t.Run(store, func(t *testing.T) {
			j := job{Store: store}
			switch store {
			case "redis":
				j.Address = redistest.Start(t).Addr
			case "postgres":
				_, j.Address = sqltest.DSN(t, sqltest.PostgreSQL)
			case "dynamodb":
				j.Address = dynamodbtest.Start(t).Endpoint
			}
			added := make(map[string]int)
			take := func(r report) report {
				for _, wrong := range r.Wrong {
					t.Error(wrong)
				}
				for key, n := range r.Added {
					added[key] += n
				}
				return r
			}
			first := take(start(t, old, j)()) // makes table and records
			j.Seconds = 10
			beside := start(t, old, j)
			j.Slack = 10 * time.Second
			todays := take(start(t, today, j)())
			olds := take(beside())
			j.Seconds = 1
			take(start(t, today, j)()) // what is written last is today's
			j.Seconds = 0
			for name, program := range map[string]string{before: old, "today": today} {
				r := take(start(t, program, j)())
				for _, key := range keys {
					if r.Read[key] != added[key] {
						t.Errorf("%s reads the count %d of a record, after %d updates", name, r.Read[key], added[key])
					}
					if r.Born[key] != first.Born[key] {
						t.Errorf("%s reads the created_at %v of a record from %v", name, r.Born[key].Time(), first.Born[key].Time())
					}
				}
			}
			if olds.Calls == 0 || todays.Calls == 0 {
				t.Error("one of them has called nothing")
			}
			t.Logf("%d accesses by %s, %d by today's", olds.Calls, before, todays.Calls)
		})
	}
}

// start starts a program, and returns what waits for its report.
func start(t *testing.T, program string, j job) func() report {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), asProgram+"="+string(text))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() report {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s: %v\n%s", filepath.Base(program), err, errs.String())
		}
		var r report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// buildBefore builds this package's program in the tree of the release before.
func buildBefore(t *testing.T) string {
	t.Helper()
	root := strings.TrimSpace(run(t, ".", "git", "rev-parse", "--show-toplevel"))
	if err := exec.Command("git", "-C", root, "cat-file", "-e", before+"^{commit}").Run(); err != nil {
		if shallow := strings.TrimSpace(run(t, root, "git", "rev-parse", "--is-shallow-repository")); shallow == "true" {
			t.Fatalf("the history is shallow and has no %s, whose program is to run beside today's: git fetch --unshallow", before)
		}
		t.Fatalf("the history has no %s, whose program is to run beside today's: %v", before, err)
	}
	tree := t.TempDir()
	archive := filepath.Join(tree, "tree.tar")
	run(t, root, "git", "archive", "-o", archive, before)
	run(t, tree, "tar", "xf", archive)
	// A module of that time that requires every driver.
	in := filepath.Join(tree, "examples", "releases")
	text, err := os.ReadFile("worker_test.go")
	if err == nil {
		err = os.MkdirAll(in, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(in, "worker_test.go"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(tree, before+".test")
	run(t, in, "go", "test", "-c", "-tags", "night", "-o", program, ".")
	return program
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}
