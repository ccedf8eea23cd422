//go:build browser

package browser_test

import (
	stdsql "database/sql"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/examples/internal/browser"
)

const axe = "../../sessions/node_modules/axe-core/axe.min.js"

// The pages that the operator's command writes of a keyspace as one finds it, and with other units
// of time.
func TestBrowserReports(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "slidingttl")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/slidingttl/slidingttl/cmd/slidingttl").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	links, carts := keyspace(t, "links.db", 24*time.Hour), keyspace(t, "carts.db", 8*time.Minute)
	const policy = "idle 30d, max 90d, slack 3d"
	ctx := browser.Open(t)
	for name, args := range map[string][]string{
		"audit":  {"audit", links, "--policy", policy},
		"sample": {"audit", carts, "--policy", "idle 4h, max 12h, slack 24m", "--sample", "0.5"},
		"diff":   {"diff", links, "--from-policy", policy, "--to-policy", "idle 21d, max 75d, slack 7d"},
		"plan":   {"plan", "--policy", policy, "--keys", "5e7", "--reads", "20000", "--price", "0.625", "--archive-price", "0.023"},
	} {
		page := filepath.Join(dir, name+".html")
		if out, err := exec.CommandContext(t.Context(), program, append(args, "--html", page)...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
		if err := chromedp.Do(ctx, chromedp.Navigate("file://"+page)); err != nil {
			t.Fatal(err)
		}
		browser.Clean(t, ctx, axe, name)
	}
}

// keyspace makes a table of records whose lives are 90 units at most, and slide by 30. A third of
// them were moved there on one day, 62 units ago.
func keyspace(t *testing.T, name string, unit time.Duration) (uri string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	db, err := stdsql.Open("sqlite", sqltest.SQLiteDSN(file))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	d, err := sql.New[any](db, sql.SQLite, "sessions", nil)
	if err == nil {
		err = d.EnsureTable(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	now, n := time.Now(), 0
	at := func(units float64) int64 { return now.Add(time.Duration(units * float64(unit))).UnixMilli() }
	add := func(created, expires any) {
		n++
		if _, err := tx.Exec("INSERT INTO sessions (id, value, created_at, expires_at) VALUES (?, '{}', ?, ?)", n, created, expires); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5000 {
		created, touched := -88*r.Float64(), -min(r.ExpFloat64()*8, 32)
		switch {
		case i < 1600:
			created = -62
		case created > touched:
			touched = created
		}
		add(at(created), at(min(touched+33, created+90)))
	}
	for range 300 {
		add(nil, nil)
		add(nil, at(60*r.Float64()))
		add(at(-95-r.Float64()), at(20*r.Float64()))
	}
	for range 60 {
		add(at(-20), at(-3))
		add(at(-2), at(70))
		add(at(-2)/1000, at(20))
		add(at(-20*r.Float64()), nil)
	}
	for range 20 {
		add("the day before yesterday", at(3))
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return "sqlite:" + strings.ReplaceAll(file, "#", "%23") + "?table=sessions"
}
