package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One run takes all tenants, each under its own policy.
func TestPolicyFor(t *testing.T) {
	const tenants = 5000
	db, uri := sessionsIn(t, 10)
	dir := t.TempDir()
	policies, byKey := filepath.Join(dir, "policies.json"), filepath.Join(dir, "by-key.json")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(policies, `{"web": {"idle_grace": "30m", "max_lifetime": "12h"}, "mobile": {"idle_grace": "30d", "max_lifetime": "90d"}, "vip": {"idle_grace": "60d", "max_lifetime": "90d"}}`)
	patterns := []string{`"t7:boss": "vip"`, `"t0*": "web"`}
	for i := 1; i < tenants; i++ {
		patterns = append(patterns, fmt.Sprintf(`"t%d:*": "%s"`, i, []string{"web", "mobile"}[i%2]))
	}
	write(byKey, "{"+strings.Join(patterns, ", ")+"}")
	execute(t, db, "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 499) INSERT INTO sessions (id, value) SELECT 't' || (i * 10 + i % 2) || ':a', '{}' FROM n")
	execute(t, db, "INSERT INTO sessions (id, value) VALUES ('t7:boss', '{}'), ('t7', '{}')")
	under := []string{"--policy-file", policies, "--policy-name", "mobile", "--policy-for", byKey}
	out, _ := command(t, 0, append([]string{"adopt", uri, "--apply", "--writes", "0", "--rate", "0", "--exact"}, under...)...)
	contains(t, out, "adoption under idle 30d, max 90d, and others by key", "adopted 512")
	for _, c := range []struct {
		idle int64
		n    int
	}{{30 * 60_000, 250}, {30 * 24 * 3600_000, 261}, {60 * 24 * 3600_000, 1}} {
		var n int
		if err := db.QueryRow("SELECT COUNT(*) FROM sessions WHERE expires_at - created_at BETWEEN ? AND ? + 2000", c.idle, c.idle).Scan(&n); err != nil || n != c.n {
			t.Errorf("%d records have %d ms to live: must be %d (%v)", n, c.idle, c.n, err)
		}
	}
	out, _ = command(t, 0, append([]string{"audit", uri, "--rate", "0"}, under...)...)
	contains(t, out, "512 records looked at", "slides 512")
	out, _ = command(t, 0, "inspect", uri, "t11:a", "--policy-file", policies, "--policy-name", "vip", "--policy-for", byKey)
	contains(t, out, "alive")
	out, _ = command(t, 0, append([]string{"diff", uri, "--rate", "0", "--to-policy", "idle 30d, max 90d"}, "--from-policy-file", policies, "--from-policy-name", "mobile", "--from-policy-for", byKey)...)
	contains(t, out, "from idle 30d, max 90d, and others by key to idle 30d, max 90d", "sooner 1 ", "later 250 ")
	out, _ = command(t, 0, append([]string{"plan", "--keys", "1e6", "--reads", "1000"}, under...)...)
	contains(t, out, "plan for idle 30d, max 90d", "if all keys had another policy plan for idle 60d, max 90d", "another policy plan for idle 30m, max 12h")
	if n := strings.Count(out, "plan for"); n != 3 {
		t.Errorf("%d plans of three policies:\n%s", n, out)
	}

	place := filepath.Join(dir, "place.json")
	_, _ = command(t, 0, append([]string{"audit", uri, "--rate", "0", "--checkpoint", place}, under...)...)
	write(byKey, `{"t7:*": "web"}`)
	_, errs := command(t, exitUsage, append([]string{"audit", uri, "--checkpoint", place, "--resume"}, under...)...)
	contains(t, errs, "policies by key")
	for _, c := range []struct{ text, want string }{
		{`{"a:*": "web", "b:*": "wbe"}`, `"b:*", before byte 20: --policy-file has no policy "wbe"`},
		{`{"a:*": "web", "b": "web", "a:*": "mobile"}`, `"a:*", before byte 32: is given twice`},
		{`{"a:*": "web", "a:1:*": "mobile"}`, `"a:1:*", before byte 22: is given twice, or an earlier pattern has all its keys`},
		{`{"a:*": "web", "a:1": "mobile"}`, `an earlier pattern has all its keys`},
		{`{"a*b": "web"}`, `must be a key, or the beginning of keys`},
		{`{"a": 1}`, `cannot unmarshal number`},
		{`["a"]`, `cannot unmarshal array`},
	} {
		write(byKey, c.text)
		_, errs := command(t, exitUsage, append([]string{"audit", uri}, under...)...)
		contains(t, errs, "--policy-for "+byKey, c.want)
	}
	_, errs = command(t, exitUsage, "audit", uri, "--policy", thirty, "--policy-for", byKey)
	contains(t, errs, "needs --policy-file")
}
