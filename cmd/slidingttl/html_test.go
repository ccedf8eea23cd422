package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const nasty = `<script>alert("you")</script>`

// lived is a table of records that slide, of which some have nasty names.
func lived(t *testing.T) (uri string) {
	t.Helper()
	db, uri := sessionsIn(t, 40)
	now := driver.Floor(time.Now())
	days := func(n int) int64 { return int64(now.Add(time.Duration(n) * 24 * time.Hour)) }
	for i := range 60 {
		execute(t, db, "UPDATE sessions SET created_at = ?, expires_at = ? WHERE id = ?", days(-i), days(1+i%30), "user:0"+string(rune('0'+i/10))+string(rune('0'+i%10)))
	}
	for i := range 30 {
		execute(t, db, "INSERT INTO sessions (id, value, created_at, expires_at) VALUES (?, '{}', ?, ?)", nasty+strings.Repeat("x", i), days(-80), days(10))
	}
	execute(t, db, "INSERT INTO sessions (id, value, created_at, expires_at) VALUES (?, '{}', ?, ?)", nasty+"y", days(-300), days(10))
	return strings.Replace(uri, "?", "?retain=1d&", 1)
}

// read returns the page at path, without tags, once it has seen that it is well-formed, that
// nothing in it is from elsewhere, and that nothing was left beside it.
func read(t *testing.T, path string) (text string) {
	t.Helper()
	page := string(must(os.ReadFile(path))(t))
	d := xml.NewDecoder(strings.NewReader(page))
	d.AutoClose, d.Entity, d.Strict = xml.HTMLAutoClose, xml.HTMLEntity, false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, page)
		}
		if data, ok := token.(xml.CharData); ok {
			text += string(data) + " "
		}
	}
	if bad := regexp.MustCompile(`(?i)<(script|link|img|iframe|a)\b| (src|href|on\w+)=|url\(|@import|https?:|ZgotmplZ|NaN|Inf\b|%!`).FindString(page); bad != "" {
		t.Errorf("%q is in\n%s", bad, page)
	}
	if !strings.Contains(page, `content="default-src 'none'; style-src 'unsafe-inline'"`) {
		t.Error("the page does not say that it needs nothing from elsewhere")
	}
	_, text, _ = strings.Cut(text, "@media print")
	if info := must(os.Stat(path))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the page's mode is %v", info.Mode())
	}
	if left := must(filepath.Glob(filepath.Join(filepath.Dir(path), ".slidingttl-*")))(t); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	return text
}

func TestPages(t *testing.T) {
	uri := lived(t)
	at := func(name string) string { return filepath.Join(t.TempDir(), name) }
	page := at("a.html")
	out, _ := command(t, 0, "audit", uri, "--policy", thirty, "--html", page)
	text := read(t, page)
	contains(t, out, "Of 71 records 1 is past the cap (1.41 %): reap. audit under", "71 records looked at", "past cap 1", "slides 70")
	contains(t, text, "Audit", "sessions", "Of 71 records 1 is past the cap (1.41 %): reap.", "audit under "+thirty, "71 records looked at",
		"slides follows the policy 70 98.59 %", "past cap older than the policy allows",
		"A column is 1d, in UTC", "wave 32 45.71 % 30 at their cap", "Examples", "past cap "+verdict.KeyHash(nasty+"y"))
	if strings.Contains(text, "alert") {
		t.Error("the page has a key")
	}

	page = at("d.html")
	command(t, 0, "diff", uri, "--from-policy", thirty, "--to-policy", "idle 30d, max 60d", "--html", page, "--json")
	contains(t, read(t, page), "Change of policy", "from "+thirty, "to idle 30d, max 60d", "at once 30 42.86 %", "wave 32 45.71 % 30 at their cap", "After", "wave 30 42.86 % 30 at their cap", "touches a day")

	page = at("p.html")
	plan := []string{"plan", "--keys", "5e7", "--reads", "20000", "--size", "2000", "--policy"}
	out, _ = command(t, 0, append(plan, thirty, "--price", "1.25", "--html", page, "--json")...)
	var r planned
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.BySlack) != 10 || r.BySlack[6].Slack != "3d" || r.BySlack[6].Touches != r.Touches || r.BySlack[6].Money != r.Money {
		t.Errorf("%v: %+v", err, r)
	}
	contains(t, read(t, page), "Plan", "plan for "+thirty, "touches a second 125.4", "3d this policy 125 a second cost 813", "0s 13,333 a second cost 86,397", "3d: 125", "an archive of the dead")
	page = at("q.html")
	command(t, 0, append(plan, "idle 30d, max 90d, promote", "--html", page)...)
	if text := read(t, page); strings.Contains(text, "a second cost") || strings.Contains(text, "cost of") {
		t.Errorf("the page of a plan without slack is\n%s", text)
	}
}

// A page tells of all shards together, and on Redis too of what is retained.
func TestPagesOfShardsAndOfRedis(t *testing.T) {
	uri, dir := lived(t), t.TempDir()
	place, page := filepath.Join(dir, "place"), filepath.Join(dir, "page.html")
	audit := []string{"audit", uri, "--policy", thirty, "--checkpoint"}
	command(t, 0, append(audit, place, "--shards", "2")...)
	command(t, 0, append(audit, place+".1of2", "--resume")...)
	command(t, 0, append(audit, place+".2of2", "--resume")...)
	command(t, 0, append(audit, place, "--merge", "--html", page)...)
	contains(t, read(t, page), "71 records looked at", "slides follows the policy 70 98.59 %", "wave 32 45.71 % 30 at their cap")

	page = filepath.Join(dir, "redis.html")
	command(t, 0, "audit", sessions(t, 100), "--policy", "idle 30m, max 12h", "--html", page)
	contains(t, read(t, page), "redis://", "A column is 1m, in UTC", "retained dead, and held by the store for a while 100 90.91 %", "wave 10 100.00 % 0 at their cap")
}

// A store that holds nothing, and one of which a part was read, have pages too.
func TestPagesOfLittle(t *testing.T) {
	_, uri := sessionsIn(t, 0)
	for _, c := range [][]string{{"audit", uri, "--policy", "idle 30m, max 12h"}, {"diff", uri, "--from-policy", thirty, "--to-policy", "idle 1m, max 1m"}} {
		page := filepath.Join(t.TempDir(), "page.html")
		command(t, 0, append(c, "--html", page)...)
		text := read(t, page)
		contains(t, text, "0 records looked at")
		if strings.Contains(text, "Examples") {
			t.Errorf("an empty table has a title in\n%s", text)
		}
	}
	all := (&survey.Sample{Segments: 64, Of: 0.1, Confidence: 0.99})
	r := &survey.AuditReport{Sample: all, States: map[verdict.State]survey.Share{verdict.Dead: {Count: 1e9, Share: 1, Low: 0.9, High: 1}},
		Calendar: survey.Calendar{Seconds: 60}}
	r.Problems, r.Doubts = map[string]int64{nasty: 7}, map[string]int64{"as if in seconds": 3}
	p := &page{Sections: sections(r.String())}
	p.audit(r)
	path := filepath.Join(t.TempDir(), "page.html")
	if err := put(path, func(w io.Writer) error { return reportPage.Execute(w, p) }); err != nil {
		t.Fatal(err)
	}
	contains(t, read(t, path), "1,000,000,000 100.00 % 90.00 % to 100.00 %", "7 "+nasty, "3 as if in seconds")
}

func TestPageRefused(t *testing.T) {
	uri := lived(t)
	dir := t.TempDir()
	there := filepath.Join(dir, "there.html")
	if err := os.WriteFile(there, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	plan := []string{"plan", "--keys", "5", "--reads", "2", "--policy", thirty, "--html"}
	audit := []string{"audit", uri, "--policy", thirty, "--html"}
	for path, want := range map[string]string{there: "is there already", dir: "is there already", filepath.Join(dir, "no", "page.html"): "--html"} {
		for _, c := range [][]string{plan, audit} {
			out, errs := command(t, exitUsage, append(slices.Clone(c), path)...)
			contains(t, errs, want)
			if out != "" {
				t.Errorf("%q looked at the store first:\n%s", path, out)
			}
		}
	}
	_, errs := command(t, exitUsage, append(audit, filepath.Join(dir, "page.html"), "--shards", "2", "--checkpoint", filepath.Join(dir, "c"))...)
	contains(t, errs, "[html shards]")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if code := run(stopped, append(audit, filepath.Join(dir, "page.html")), streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard}); code != exitStopped {
		t.Errorf("a run that is stopped exits with %d", code)
	}
	if files := must(os.ReadDir(dir))(t); len(files) != 1 || string(must(os.ReadFile(there))(t)) != "mine" {
		t.Errorf("%v are there", files)
	}
}

func TestWaves(t *testing.T) {
	from := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	calendar := func(days int, deaths ...int64) survey.Calendar {
		c := survey.Calendar{From: from, Seconds: 24 * 3600, Later: 10, Steps: make([]survey.Step, days)}
		for i, n := range deaths {
			c.Steps[i] = survey.Step{Deaths: n, Capped: n / 2}
		}
		return c
	}
	for name, c := range map[string]struct {
		survey.Calendar
		want string
	}{
		"empty":  {calendar(0), ""},
		"none":   {calendar(30), ""},
		"level":  {calendar(3, 7, 7, 7), ""},
		"one":    {calendar(30, 1, 1, 87, 1), "25 Nov 87"},
		"two":    {calendar(30, 90, 80, 1, 1, 70), "23 Nov 90, 24 Nov 80, 27 Nov 70"},
		"slope":  {calendar(30, 8, 20, 40, 90, 46, 5), "26 Nov 90, 27 Nov 46"},
		"ripple": {calendar(30, slices.Repeat([]int64{20}, 20)...), ""},
	} {
		var s section
		s.calendar(c.Calendar)
		var got []string
		for _, r := range s.Rows[:len(s.Rows)-1] {
			got = append(got, r.Name+" "+r.Cells[0])
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
		if marked := strings.Count(string(s.Chart), `class="s"`); marked != len(got) || s.Rows[len(got)].Cells[0] != "10" {
			t.Errorf("%s: %d columns are marked, and the table is %v", name, marked, s.Rows)
		}
	}
}
