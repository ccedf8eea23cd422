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
			for i := range 100 {
				for _, of := range []string{tenant, `abc_[x]*?!\:`, `A%C_[X]*?!\:`} {
					if err := k.add(fmt.Sprintf("%s%03d", of, i), "{}"); err != nil {
						t.Fatal(err)
					}
				}
			}
			does := func(args ...string) string {
				t.Helper()
				out, _ := command(t, 0, append(args, "--policy", thirty)...)
				return out
			}
			contains(t, does("audit", k.uri, "--prefix", tenant), "100 records looked at", "no created at 100")
			list := filepath.Join(t.TempDir(), "list")
			if err := os.WriteFile(list, fmt.Appendf(nil, "%q\twhy it failed\n%s007\nnobody\n", tenant+"005", tenant), 0o600); err != nil {
				t.Fatal(err)
			}
			contains(t, does("adopt", k.uri, "--only", list, "--apply", "--no-undo"), "3 records looked at", "adopted 2", "gone before they were written 1")
			place := filepath.Join(t.TempDir(), "place.json")
			adopt := []string{"adopt", k.uri, "--prefix", tenant, "--apply", "--no-undo", "--rate", "400"}
			contains(t, does(append(adopt, "--checkpoint", place)...), "100 records looked at", "adopted 98", "had created_at 2")
			_, errs := command(t, exitUsage, "adopt", k.uri, "--policy", thirty, "--prefix", "abc", "--apply", "--no-undo", "--checkpoint", place, "--resume")
			contains(t, errs, "--resume")
			contains(t, does("audit", k.uri), "300 records looked at", "slides 100", "no created at 200")
		})
	}
}
