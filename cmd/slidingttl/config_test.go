package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/verdict"
)

// A job names a store of the file of settings; flags win over what that says.
func TestConfig(t *testing.T) {
	db, uri := sessionsIn(t, 30)
	execute(t, db, "ALTER TABLE sessions RENAME COLUMN id TO code")
	dir := t.TempDir()
	file := filepath.Join(dir, "slidingttl.json")
	for path, content := range map[string]string{
		file: `{
			"stores": {
				"sessions": {"uri": "` + uri + `", "layout": "layout.json"},
				"as-web": {"uri": "` + uri + `", "layout": "layout.json", "policy": "web"}
			},
			"sessions": {"idle_grace": "30d", "max_lifetime": "90d"},
			"web": {"idle_grace": "30m", "max_lifetime": "12h"}
		}`,
		filepath.Join(dir, "layout.json"): `{"key": "code"}`,
		filepath.Join(dir, "other.json"):  `{"key": "elsewhere"}`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, errs := command(t, exitUsage, "audit", "sessions")
	contains(t, errs, "--config or SLIDINGTTL_CONFIG")
	t.Setenv(configFrom, file)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"audit", "sessions"}, "audit under idle 30d, max 90d 30 records"},
		{[]string{"audit", "as-web"}, "audit under idle 30m, max 12h 30 records"},
		{[]string{"audit", "sessions", "--policy-name", "web"}, "audit under idle 30m, max 12h 30 records"},
		{[]string{"audit", "as-web", "--policy", thirty}, "audit under " + thirty + " 30 records"},
		{[]string{"diff", "sessions", "--to-policy-name", "web"}, "from idle 30d, max 90d to idle 30m, max 12h"},
		{[]string{"mend", "sessions"}, "well 30"},
		{[]string{"plan", "--policy-name", "web", "--keys", "1e6", "--reads", "1000"}, "plan for idle 30m, max 12h"},
	} {
		out, _ := command(t, 0, c.args...)
		contains(t, out, c.want)
	}
	_, errs = command(t, 0, "audit", "sessions", "--layout", filepath.Join(dir, "other.json"))
	contains(t, errs, "elsewhere")
	_, errs = command(t, exitUsage, "audit", "nowhere")
	contains(t, errs, `there is no store "nowhere"`)
	_, errs = command(t, exitUsage, "audit", "sessions", "--policy-name", "nobody's")
	contains(t, errs, "must be there")
	_, errs = command(t, exitUsage, "audit", "sessions", "--config", filepath.Join(dir, "none"))
	contains(t, errs, "--config: open")
}

// A file of settings or a layout with a name that is misspelt or doubled is refused, by name and place.
func TestConfigNames(t *testing.T) {
	_, uri := sessionsIn(t, 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "slidingttl.json")
	for _, c := range []struct{ text, want string }{
		{`{"stores": {"sessions": {"uri": "URI", "polcy": "web"}}, "sessions": {"idle_grace": "30d", "max_lifetime": "90d"}}`, `stores.sessions: json: unknown field "polcy"`},
		{`{"stores": {"sessions": {"uri": "URI", "layuot": "l.json", "policy": "web"}}, "web": {"idle_grace": "30d", "max_lifetime": "90d"}}`, `unknown field "layuot"`},
		{`{"stores": {"sessions": {"uri": "no"}, "sessions": {"uri": "URI"}}, "sessions": {"idle_grace": "30d", "max_lifetime": "90d"}}`, `stores.sessions is given twice, the second time at byte`},
		{`{"stores": {"sessions": {"uri": "no", "URI": "URI"}}, "sessions": {"idle_grace": "30d", "max_lifetime": "90d"}}`, `stores.sessions.URI is given twice`},
		{`{"stores": {}, "stores": {"sessions": {"uri": "URI"}}, "sessions": {"idle_grace": "30d", "max_lifetime": "90d"}}`, `stores is given twice`},
		{`{"stores": {"sessions": {"uri": "URI"}}, "sessions": {"idle_grace": "30d", "max_lifetime": "90d"}, "sessions": {"idle_grace": "30m", "max_lifetime": "90d"}}`, `sessions is given twice`},
		{`{"stores": {"sessions": {"uri": "URI"}}, "sessions": {"idle_grace": "30d", "idle_grace": "30m", "max_lifetime": "90d"}}`, `sessions.idle_grace is given twice`},
		{`{"stores": {"sessions": {"uri": "URI"}}, "sessions": {"idle_grace": "30d", "max_lifetime": "90d"}, "web": {"idel_grace": "30m"}}`, `idel_grace`},
	} {
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(c.text, `"URI"}`, `"`+uri+`"}`)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs := command(t, exitUsage, "audit", "sessions", "--config", file)
		contains(t, errs, c.want)
	}
	layout := filepath.Join(dir, "layout.json")
	if err := os.WriteFile(layout, []byte(`{"key": "code", "key": "id"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs := command(t, exitUsage, "audit", uri, "--policy", thirty, "--layout", layout)
	contains(t, errs, "--layout: key is given twice")
}

// Records are found by their state; a key is shown only to who asks for keys.
func TestList(t *testing.T) {
	db, uri := sessionsIn(t, 30)
	execute(t, db, "UPDATE sessions SET created_at = 17, expires_at = 4102444800000 WHERE id = 'user:007'")
	execute(t, db, "INSERT INTO sessions (id, value) VALUES (?, '{}')", "line\nbreak\"")
	hash := verdict.KeyHash("user:007")
	out, _ := command(t, 0, "list", uri, "--policy", thirty)
	contains(t, out, "hash "+hash+" implausible created_at 1970", "1 found among 31 looked at")
	out, _ = command(t, 0, "list", uri, "--policy", thirty, "--keys")
	contains(t, out, `"user:007" implausible`)
	out, _ = command(t, 0, "list", uri, "--policy", thirty, "--where", "foreign,implausible", "--limit", "5")
	contains(t, out, "5 found among")
	out, _ = command(t, 0, "list", uri, "--policy", thirty, "--where", "foreign", "--limit", "100", "--keys")
	contains(t, out, `"line\nbreak\"" no created at created_at none expires_at none`, "30 found among 31 looked at")
	var audit survey.AuditReport
	out, _ = command(t, 0, "audit", uri, "--policy", thirty, "--json")
	if err := json.Unmarshal([]byte(out), &audit); err != nil || len(audit.Examples[verdict.NoCreatedAt]) != 3 || audit.Examples[verdict.Implausible][0] != hash {
		t.Errorf("%v: %s", err, out)
	}
	var found listing
	out, _ = command(t, 0, "list", uri, "--policy", thirty, "--json")
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found.Found) != 1 || found.Found[0].Hash != hash || found.Found[0].Key != "" {
		t.Errorf("%v: %s", err, out)
	}
	_, errs := command(t, exitUsage, "list", uri, "--policy", thirty, "--where", "odd")
	contains(t, errs, "must be one or more of beyond-policy, dead, foreign")
}

// The URIs and settings that the README shows are such as the command takes.
func TestReadmeStores(t *testing.T) {
	readme := string(must(os.ReadFile("README.md"))(t))
	optional, seen := regexp.MustCompile(`\[[^\]]*\]`), 0
	for _, m := range regexp.MustCompile("`([a-z]+:[^`\n]*[^/`\n])`").FindAllStringSubmatch(readme, -1) {
		uri := optional.ReplaceAllString(m[1], "")
		if kindOf(uri) == nil {
			continue
		}
		seen++
		if _, _, err := parseAddress(uri); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if seen < len(kinds) {
		t.Errorf("the README shows %d URIs", seen)
	}
	_, text, _ := strings.Cut(readme, "A file of settings")
	_, text, _ = strings.Cut(text, "```json\n")
	text, _, _ = strings.Cut(text, "```")
	file := filepath.Join(t.TempDir(), "slidingttl.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs := command(t, exitUsage, "audit", "nowhere", "--config", file)
	contains(t, errs, `there is no store "nowhere"`) // and so it was read
	for _, name := range []string{"sessions", "web"} {
		out, _ := command(t, 0, "plan", "--config", file, "--policy-name", name, "--keys", "1", "--reads", "1")
		contains(t, out, "plan for idle")
	}
}
