package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const deploy = "../../examples/deploy/"

// manifest is a Job or a CronJob.
type manifest struct {
	Kind string
	Spec struct {
		template    `yaml:",inline"`
		Completions int
		JobTemplate struct{ Spec template } `yaml:"jobTemplate"`
	}
}

type template struct {
	Template struct {
		Spec struct {
			Containers []struct{ Command, Args []string }
		}
	}
}

// deployed are the arguments of each command line in a file of examples/deploy, with the first
// index in the place of a pod's.
func deployed(t *testing.T, name string) (lines [][]string) {
	t.Helper()
	content := must(os.ReadFile(deploy + name))(t)
	if filepath.Ext(name) != ".yaml" {
		for line := range strings.Lines(string(content)) {
			if command, is := strings.CutPrefix(line, "ExecStart=/usr/local/bin/slidingttl "); is {
				lines = append(lines, strings.Fields(command))
			}
		}
		return lines
	}
	d := yaml.NewDecoder(strings.NewReader(string(content)))
	for {
		var m manifest
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return lines
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, c := range slices.Concat(m.Spec.Template.Spec.Containers, m.Spec.JobTemplate.Spec.Template.Spec.Containers) {
			args := c.Args
			if slices.Equal(c.Command, []string{"sh", "-c"}) && len(args) == 1 {
				script, _ := strings.CutPrefix(args[0], "exec slidingttl ")
				args = strings.Fields(strings.ReplaceAll(script, "$((JOB_COMPLETION_INDEX+1))", "1"))
			} else if c.Command != nil {
				t.Errorf("%s: the command %q is not known here", name, c.Command)
			}
			lines = append(lines, args)
		}
	}
}

// The command accepts every command line in examples/deploy, and its settings.
func TestDeployedLines(t *testing.T) {
	for name, want := range map[string]int{
		"audit-1-split.yaml": 1, "audit-2-shards.yaml": 1, "audit-3-merge.yaml": 1,
		"harvest-cronjob.yaml": 1, "slidingttl-harvest.service": 1,
	} {
		lines := deployed(t, name)
		if len(lines) != want {
			t.Errorf("%s has %d command lines; want %d", name, len(lines), want)
		}
		for _, line := range lines {
			for i := range line {
				line[i] = strings.ReplaceAll(line[i], "/etc/slidingttl/", deploy)
			}
			_, root := newRoot(streams{out: io.Discard, err: io.Discard})
			c, rest, err := root.Find(line)
			if err == nil {
				err = c.ParseFlags(rest)
			}
			if err == nil {
				err = c.ValidateArgs(c.Flags().Args())
			}
			if err == nil {
				err = errors.Join(c.ValidateRequiredFlags(), c.ValidateFlagGroups())
			}
			if err != nil || c == root {
				t.Errorf("%s: slidingttl %q: %v", name, line, err)
			}
		}
	}
}

// The three jobs of an audit, one after the other, count each record once.
func TestDeployedAudit(t *testing.T) {
	_, uri := sessionsIn(t, 300)
	dir := t.TempDir()
	settings := fmt.Sprintf(`{"stores": {"links": {"uri": %q}}, "links": {"idle_grace": "30d", "max_lifetime": "90d"}}`, uri)
	if err := os.WriteFile(filepath.Join(dir, "slidingttl.json"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("/etc/slidingttl", dir, "/place", dir, ".1of8", ".%dof8")
	job := func(name string, shard int) string {
		line := deployed(t, name)[0]
		for i := range line {
			if line[i] = here.Replace(line[i]); strings.Contains(line[i], "%d") {
				line[i] = fmt.Sprintf(line[i], shard)
			}
			if line[i] == ":9090" {
				line[i] = "localhost:0"
			}
		}
		out, _ := command(t, 0, line...)
		return out
	}
	job("audit-1-split.yaml", 0)
	for i := range 8 {
		job("audit-2-shards.yaml", i+1)
	}
	contains(t, job("audit-3-merge.yaml", 0), `"records": 300`)
}
