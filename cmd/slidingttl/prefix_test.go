package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A prefix narrows a walk to a tenant's keys, whatever they have of a pattern's characters, and a list to
// the keys in it.
func TestPrefix(t *testing.T) {
	const tenant = `a%c_[x]*?!\:`
	for _, name := range []string{"redis", "postgres", "mysql", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			k := keyspaces[name](t)
			for i := range 30 {
				for _, of := range []string{tenant, `abc_[x]*?!\:`, `A%C_[X]*?!\:`} {
					if err := k.add(fmt.Sprintf("%s%02d", of, i), "{}"); err != nil {
						t.Fatal(err)
					}
				}
			}
			does := func(args ...string) string {
				t.Helper()
				out, _ := command(t, 0, append(args, "--policy", thirty)...)
				return out
			}
			contains(t, does("audit", k.uri, "--prefix", tenant), "30 records looked at", "no created at 30")
			list := filepath.Join(t.TempDir(), "list")
			if err := os.WriteFile(list, fmt.Appendf(nil, "%q\twhy it failed\n%s07\nnobody\n", tenant+"05", tenant), 0o600); err != nil {
				t.Fatal(err)
			}
			contains(t, does("adopt", k.uri, "--only", list, "--apply", "--no-undo"), "3 records looked at", "adopted 2", "gone before they were written 1")
			place := filepath.Join(t.TempDir(), "place.json")
			adopt := []string{"adopt", k.uri, "--prefix", tenant, "--apply", "--no-undo", "--segments", "3", "--page", "4"}
			contains(t, does(append(adopt, "--checkpoint", place)...), "30 records looked at", "adopted 28", "had created_at 2")
			_, errs := command(t, exitUsage, "adopt", k.uri, "--policy", thirty, "--prefix", "abc", "--apply", "--no-undo", "--checkpoint", place, "--resume")
			contains(t, errs, "--resume")
			contains(t, does("audit", k.uri), "90 records looked at", "slides 30", "no created at 60")
		})
	}
}
