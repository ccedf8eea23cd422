package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
		podTemplate `yaml:",inline"`
		Completions int
		JobTemplate struct{ Spec podTemplate } `yaml:"jobTemplate"`
	}
}

type podTemplate struct {
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
			if err := understood(line, true); err != nil {
				t.Errorf("%s: slidingttl %q: %v", name, line, err)
			}
		}
	}
}

// understood returns an error if the command does not accept line; a part of one needs not have
// all that is required.
func understood(line []string, whole bool) error {
	_, root := newRoot(streams{out: io.Discard, err: io.Discard})
	root.InitDefaultCompletionCmd()
	c, rest, err := root.Find(line)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil && c == root && len(c.Flags().Args()) > 0 {
		err = errors.New("there is no such command")
	}
	if err != nil || !whole {
		return err
	}
	return errors.Join(c.ValidateArgs(c.Flags().Args()), c.ValidateRequiredFlags(), c.ValidateFlagGroups())
}

var (
	// documented is a block of commands in a document, or a command within a sentence.
	documented  = regexp.MustCompile("(?ms)^```(?:sh|console)\n.*?^```$|`slidingttl [a-z][^`\n]*`")
	commandLine = regexp.MustCompile("(?m)^(?:\\$ |`)?slidingttl ([^`\n#|]*)")
)

// The command has every subcommand and flag that a document names.
func TestDocumentedLines(t *testing.T) {
	lines := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || filepath.Base(path) == "CHANGELOG.md": // which tells of what is gone
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		for _, text := range documented.FindAllString(string(must(os.ReadFile(path))(t)), -1) {
			for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
				lines++
				args := words.FindAllString(m[1], -1)
				for i := range args {
					args[i] = strings.Trim(args[i], `"`)
				}
				if err := understood(args, false); err != nil {
					t.Errorf("%s: slidingttl %s: %v", path, m[1], err)
				}
			}
		}
		return nil
	})
	if err != nil || lines < 45 {
		t.Errorf("%d lines, %v", lines, err)
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
