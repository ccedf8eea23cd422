package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

const asCommand = "SLIDINGTTL_TEST_AS_COMMAND"

// TestMain runs the command itself where a test asks for it in a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(dynamodbtest.Main(servers{m}))
}

// servers are those of databases, which all tests share.
type servers struct{ m *testing.M }

func (s servers) Run() int { return sqltest.Main(s.m) }

const thirty = "idle 30d, max 90d, slack 3d"

// node is a store to run the command against.
type node struct {
	*couchbasetest.Node
	c   *gocb.Collection
	uri string
}

func open(t *testing.T) *node {
	t.Helper()
	n := couchbasetest.Start(t)
	t.Setenv("SLIDINGTTL_COUCHBASE_USER", n.Username())
	t.Setenv("SLIDINGTTL_COUCHBASE_PASSWORD", n.Password())
	return &node{n, n.Cluster(t).Bucket(n.Bucket()).DefaultCollection(), n.ConnectionString() + "/" + n.Bucket()}
}

// fill puts n documents without created_at or expiry.
func (n *node) fill(t *testing.T, count int) {
	t.Helper()
	for i := range count {
		if _, err := n.c.Upsert(fmt.Sprint("user:", i), map[string]any{"n": i, "born": "2020-01-02T03:04:05Z"}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// command runs the command and returns what it printed.
func command(t *testing.T, want int, args ...string) (out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code := run(t.Context(), args, streams{in: strings.NewReader(""), out: &o, err: &e})
	if code != want {
		t.Fatalf("slidingttl %q exits with %d; want %d\n%s%s", args, code, want, &o, &e)
	}
	return o.String(), e.String()
}

// contains wants all of want in text, whatever the space between words.
func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	text = strings.Join(strings.Fields(text), " ")
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in\n%s", w, text)
		}
	}
}

func TestAdoptAKeyspace(t *testing.T) {
	n := open(t)
	n.fill(t, 300)
	out, _ := command(t, 0, "audit", n.uri, "--policy", thirty)
	contains(t, out, "300 records looked at", "no created at 300")
	out, _ = command(t, exitDead, "inspect", n.uri, "nobody", "--policy", thirty)
	contains(t, out, "the store holds no record")
	out, _ = command(t, 0, "adopt", n.uri, "--policy", thirty)
	contains(t, out, "a dry run", "would be adopted 300")
	out, _ = command(t, 0, "inspect", n.uri, "user:7", "--policy", thirty, "--value")
	contains(t, out, "alive: it was not adopted yet", `"n":7`)
	out, _ = command(t, 0, "adopt", n.uri, "--policy", thirty, "--apply", "--writes", "0", "--json")
	var report upkeep.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Counts["adopted"] != 300 || !report.Applied || !report.Done {
		t.Errorf("%v: %s", err, out)
	}
	out, _ = command(t, 0, "audit", n.uri, "--policy", thirty)
	contains(t, out, "slides 300")
	out, _ = command(t, 0, "inspect", n.uri, "user:7", "--policy", thirty)
	contains(t, out, "alive: neither its expiry nor its cap has come", "slidingttl.created_at")
	out, _ = command(t, 0, "diff", n.uri, "--from-policy", thirty, "--to-policy", "idle 1d, max 2d")
	contains(t, out, "300 records looked at", "at once")
	out, _ = command(t, 0, "reap", n.uri, "--policy", "idle 1ms, max 1ms")
	contains(t, out, "a dry run", "would be removed: past their cap")
	out, _ = command(t, 0, "mend", n.uri)
	contains(t, out, "well 300")
}

func TestAdoptFromField(t *testing.T) {
	n := open(t)
	n.fill(t, 20)
	out, _ := command(t, 0, "adopt", n.uri, "--policy", thirty, "--from-field", "born", "--apply")
	contains(t, out, "left: too old, by the rule 20")
	out, _ = command(t, 0, "adopt", n.uri, "--policy", "idle 30d, max none", "--from-field", "born", "--apply")
	contains(t, out, "adopted 20")
	out, _ = command(t, 0, "inspect", n.uri, "user:1", "--policy", "idle 30d, max none")
	contains(t, out, "2020-01-02 03:04:05.000 UTC")
}

func TestPlan(t *testing.T) {
	out, _ := command(t, 0, "plan", "--policy", thirty, "--keys", "5e7", "--reads", "20000", "--size", "2000", "--price", "1.25", "--archive-price", "0.023")
	// 50,000,000 keys read every 2,500 s: a touch every 3 days and 2,500 s, for the 57 of
	// 90 days after which a touch reaches to the cap, and one more.
	contains(t, out, "125.4", "250.9", "812.85")
	// Two units a key; and each of them dies every 90 days and 2,500 s, 2,000 bytes at a time.
	contains(t, out, "write units 100000000 cost 125.00", "deaths a second 6.4", "GB more in 30 days 33.3", "cost of keeping them 0.77 a month")
}

func TestUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "layout.json")
	if err := os.WriteFile(file, []byte(`{"creatd_at": "x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	types := filepath.Join(t.TempDir(), "types.json")
	if err := os.WriteFile(types, []byte(`{"created_at_type": "date"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, uri := sessionsIn(t, 0)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no policy":        {[]string{"audit", "dynamodb://t"}, "policy"},
		"bad policy":       {[]string{"audit", "dynamodb://t", "--policy", "forever"}, "--policy"},
		"no store":         {[]string{"audit", "--policy", thirty}, "STORE"},
		"unknown scheme":   {[]string{"audit", "mongodb://t", "--policy", thirty}, "mongodb"},
		"no container":     {[]string{"audit", "cosmos://h/d", "--policy", thirty}, "database/container"},
		"no table":         {[]string{"audit", "postgres://u@h/app", "--policy", thirty}, "table=[schema.]T"},
		"no file":          {[]string{"audit", "sqlite:?table=t", "--policy", thirty}, "sqlite:path"},
		"no such file":     {[]string{"audit", "sqlite:no.db?table=t", "--policy", thirty}, "there is no file no.db"},
		"no duration":      {[]string{"audit", "sqlite:no.db?table=t&retain=long", "--policy", thirty}, "retain is"},
		"no source":        {[]string{"harvest", "dynamodb://t", ".", "--policy", thirty}, "source"},
		"no archive":       {[]string{"harvest", "dynamodb://t", "no such", "--policy", thirty, "--source", "s"}, "there is no directory"},
		"no time":          {[]string{"harvest", "dynamodb://t", ".", "--policy", thirty, "--source", "s", "--since", "today"}, "--since"},
		"retained for?":    {[]string{"audit", "dynamodb://t?retain=long", "--policy", thirty}, "retain is"},
		"not a word":       {[]string{"audit", "sqlite:no.db?table=t", "--policy", thirty, "--layout", types}, "datetime, millis, timestamp"},
		"unknown flag":     {[]string{"audit", "dynamodb://t", "--polcy", thirty}, "polcy"},
		"unknown name":     {[]string{"audit", "dynamodb://t", "--policy", thirty, "--layout", file}, "creatd_at"},
		"resume of what":   {[]string{"adopt", "dynamodb://t", "--policy", thirty, "--resume"}, "--checkpoint"},
		"checkpoint there": {[]string{"adopt", "dynamodb://t", "--policy", thirty, "--checkpoint", file}, "--resume"},
		"no rate":          {[]string{"audit", uri, "--policy", thirty, "--rate", "-1"}, "--rate is -1"},
		"no error at all":  {[]string{"audit", "dynamodb://t", "--policy", thirty, "--max-errors", "0"}, "--max-errors is 0: must be more than 0"},
		"no keys":          {[]string{"plan", "--policy", thirty}, "--keys"},
		"bad spread":       {[]string{"adopt", "dynamodb://t?region=x", "--policy", thirty, "--spread", "soon"}, "--spread"},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := command(t, exitUsage, c.args...)
			contains(t, errs, c.want)
		})
	}
}

// A password in a URI is refused, and the error says where it belongs instead.
func TestPasswordRefused(t *testing.T) {
	for uri, want := range map[string]string{
		"couchbase://u:secret@h/b":                   "SLIDINGTTL_COUCHBASE_PASSWORD",
		"cosmos://:secret@h/d/c":                     "SLIDINGTTL_COSMOS_KEY",
		"cosmos://h/d/c?key=secret":                  "cosmos://account",
		"dynamodb://u:secret@t":                      "AWS_ACCESS_KEY_ID",
		"rediss://:secret@h":                         "REDISCLI_AUTH",
		"postgres://u:secret@h/d?table=t":            "PGPASSWORD",
		"postgres://u@h/d?table=t&password=secret":   "PGPASSWORD",
		"postgres://h/d?table=t&sslpassword=secret":  "PGPASSWORD",
		"mysql://u:secret@h/d?table=t":               "MYSQL_PWD",
		"couchbase://u:sec%ret@h/b":                  "must be a URI",
		"sqlite:file.db?table=t&_auth_passw=secret1": "SQLite",
	} {
		_, errs := command(t, exitUsage, "audit", uri, "--policy", thirty)
		contains(t, errs, want)
		if strings.Contains(errs, "secret") || strings.Contains(errs, "sec%") {
			t.Errorf("the error has the password: %s", errs)
		}
	}
}

// On a terminal what writes asks first.
func TestAsks(t *testing.T) {
	n := open(t)
	n.fill(t, 5)
	for answer, want := range map[string]int{"n\n": exitUsage, "\n": exitUsage, "y\n": 0} {
		var o, e bytes.Buffer
		code := run(t.Context(), []string{"adopt", n.uri, "--policy", thirty, "--apply"}, streams{in: strings.NewReader(answer), out: &o, err: &e, typed: true, asks: true})
		if code != want || !strings.Contains(e.String(), "Go ahead?") {
			t.Errorf("%q: exit code %d; want %d\n%s%s", answer, code, want, &o, &e)
		}
	}
}

func TestStopped(t *testing.T) {
	n := open(t)
	n.fill(t, 50)
	place := filepath.Join(t.TempDir(), "place.json")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var o, e bytes.Buffer
	go func() {
		defer cancel()
		_ = n.Await(ctx, func(c couchbasetest.Counts) bool { return c.MutateIn > 12 })
	}()
	code := run(ctx, []string{"adopt", n.uri, "--policy", thirty, "--apply", "--writes", "20", "--checkpoint", place}, streams{in: strings.NewReader(""), out: &o, err: &e})
	if code != exitStopped {
		t.Fatalf("exit code %d\n%s%s", code, &o, &e)
	}
	contains(t, e.String(), "--resume")
	contains(t, o.String(), "not all were")
	out, _ := command(t, 0, "adopt", n.uri, "--policy", thirty, "--apply", "--writes", "0", "--checkpoint", place, "--resume")
	contains(t, out, "in 2 runs", "counts as found so")
	out, _ = command(t, 0, "audit", n.uri, "--policy", thirty)
	contains(t, out, "slides 50")
}

// A command that is killed at any moment, time and again, and gone on with, writes each
// record once and leaves none out.
func TestKilled(t *testing.T) {
	n := open(t)
	const records = 800
	n.fill(t, records)
	before := n.Counts().Mutations
	place := filepath.Join(t.TempDir(), "place.json")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kills := 0
	for done := false; !done; {
		rate := "200"
		if kills == 20 {
			rate = "0"
		}
		args := []string{"adopt", n.uri, "--policy", thirty, "--apply", "--writes", rate, "--checkpoint", place}
		if _, err := os.Stat(place); err == nil {
			args = append(args, "--resume")
		}
		c := exec.Command(program, args...)
		c.Env = append(os.Environ(), asCommand+"=1")
		var errs bytes.Buffer
		c.Stderr = &errs
		at := n.Counts().MutateIn
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lives, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- c.Wait()
			end()
		}()
		// A moment that no clock foresees: after so many writes.
		if kills < 20 && n.Await(lives, func(now couchbasetest.Counts) bool { return now.MutateIn-at > uint64(5+kills) }) == nil {
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-ended
			kills++
			continue
		}
		if err := <-ended; err != nil {
			t.Fatalf("%v: %s", err, &errs)
		}
		done = true
	}
	if kills != 20 {
		t.Errorf("it was killed %d times", kills)
	}
	if wrote := n.Counts().Mutations - before; wrote != records {
		t.Errorf("%d records were written %d times", records, wrote)
	}
	out, _ := command(t, 0, "audit", n.uri, "--policy", thirty)
	contains(t, out, "slides 800")
}
