package telemetry_test

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	rules     = "../../../telemetry/alerts.yml"
	ruleTests = "../../../telemetry/alerts_test.yml"
	dashboard = "../../../telemetry/dashboard.json"
	runbook   = "../../../docs/operations.md"
)

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	ok(t, err)
	return string(content)
}

func TestRules(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rules)
	promtool(t, "test", "rules", ruleTests)
}

var alert = regexp.MustCompile(`(?m)^\s+- alert: (\w+)$`)

// Every alert has a test, and a section of the runbook.
func TestEveryAlertIsTestedAndExplained(t *testing.T) {
	content, tests, book := read(t, rules), read(t, ruleTests), read(t, runbook)
	sections := make(map[string]bool)
	for line := range strings.Lines(book) {
		if title, is := strings.CutPrefix(line, "#"); is {
			sections[anchor(strings.TrimLeft(title, "# "))] = true
		}
	}
	names := alert.FindAllStringSubmatchIndex(content, -1)
	if len(names) < 6 {
		t.Fatalf("%d alerts", len(names))
	}
	for i, at := range names {
		name, end := content[at[2]:at[3]], len(content)
		if i+1 < len(names) {
			end = names[i+1][0]
		}
		body := content[at[0]:end]
		if n := strings.Count(tests, "alertname: "+name+"\n"); n < 2 {
			t.Errorf("%s has %d tests; want it to fire in one and not in another", name, n)
		}
		_, section, _ := strings.Cut(body, "docs/operations.md#")
		section, _, _ = strings.Cut(section, "\n")
		if !sections[section] {
			t.Errorf("%s points at the section %q of %s, which is not there", name, section, runbook)
		}
		if !strings.Contains(book, "`"+name+"`") {
			t.Errorf("%s does not speak of %s", runbook, name)
		}
		if !strings.Contains(body, "runbook: ") || !strings.Contains(body, "summary: ") {
			t.Errorf("%s has no runbook line or no summary", name)
		}
	}
}

// anchor is the fragment of a title on the web.
func anchor(title string) string {
	title = strings.ToLower(strings.TrimSpace(title))
	title = regexp.MustCompile("[^a-z0-9 _-]").ReplaceAllString(title, "")
	return strings.ReplaceAll(title, " ", "-")
}

var (
	metric   = regexp.MustCompile(`\b(?:slidingttl|db_client)_\w+`)
	recorded = regexp.MustCompile(`[\w]*:[\w:]+`)
	suffix   = regexp.MustCompile(`_(bucket|count|sum)$`)
	quoted   = regexp.MustCompile(`"[^"]*"`)
)

// Every metric that the rules and the dashboard name is exported, and every one that is
// exported is on the dashboard.
func TestNamedMetricsExist(t *testing.T) {
	exported := byPrometheus(t)
	exported[callDuration] = byOTel(t)[callDuration]
	shown := make(map[string]bool)
	find := func(where, text string) {
		text = recorded.ReplaceAllString(quoted.ReplaceAllString(text, ""), "")
		for _, name := range metric.FindAllString(text, -1) {
			base := name
			if strings.HasPrefix(exported[suffix.ReplaceAllString(name, "")], "HISTOGRAM ") {
				base = suffix.ReplaceAllString(name, "")
			}
			if exported[base] == "" {
				t.Errorf("%s names %s, which nobody exports", where, name)
			}
			if where == dashboard {
				shown[base] = true
			}
		}
	}
	find(rules, read(t, rules))
	for _, e := range expressions(t) {
		find(dashboard, e)
	}
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		if !shown[name] {
			t.Errorf("%s is not on the dashboard", name)
		}
	}
}
