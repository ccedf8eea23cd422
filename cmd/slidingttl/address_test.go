package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
)

// A parameter that a kind of store does not know is refused, whatever the command.
func TestUnknownParameters(t *testing.T) {
	for _, k := range kinds {
		example := map[string]string{
			"couchbase": "couchbase://h/b", "cosmos": "cosmos://h/d/c", "dynamodb": "dynamodb://t", "redis": "redis://h",
			"postgres": "postgres://h/d?table=t", "mysql": "mysql://h/d?table=t", "sqlite": "sqlite:f.db?table=t",
		}[k.schemes[0]]
		joined := example + "?"
		if strings.Contains(example, "?") {
			joined = example + "&"
		}
		for parameter, want := range map[string]string{
			"prefx=session:":        `"prefx", which is unknown`,
			"retain=1d&retain=2d":   "more than once",
			"retain=":               "retain is empty",
			"Retain=30d":            `"Retain", which is unknown`,
			"retain=soon":           "must be a duration",
			"retain=30d;prefix=%zz": "cannot be read",
		} {
			_, errs := command(t, exitUsage, "audit", joined+parameter, "--policy", thirty)
			contains(t, errs, want, k.schemes[0])
		}
	}
}

// A write to a Redis has to say whose keys it is for; a mistyped parameter writes nothing.
func TestSharedStore(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	do := func(words ...string) string {
		t.Helper()
		text, err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for i := range 20 {
		do("SET", fmt.Sprint("session:", i), "{}")
	}
	do("SET", "another tenant's counter", "41")
	uri := "redis://" + server.Option().InitAddress[0]
	for store, want := range map[string]string{uri + "?prefx=session:": "prefx", uri: "prefix=*", uri + "?prefix=": "prefix is empty"} {
		for _, op := range [][]string{{"adopt", "--no-undo"}, {"reap"}} {
			args := append(op, store, "--policy", thirty, "--apply")
			_, errs := command(t, exitUsage, args...)
			contains(t, errs, want)
		}
		_, errs := command(t, exitUsage, "mend", store, "--apply")
		contains(t, errs, want)
	}
	if n := do("GET", "another tenant's counter"); n != "41" {
		t.Fatalf("another tenant's counter became %q", n)
	}
	out, _ := command(t, 0, "adopt", uri+"?prefix=session:", "--policy", thirty, "--apply", "--no-undo")
	contains(t, out, "adopted 20")
	if n := do("GET", "another tenant's counter"); n != "41" {
		t.Fatalf("another tenant's counter became %q", n)
	}
	out, _ = command(t, 0, "adopt", uri+"?prefix=*", "--policy", thirty, "--apply", "--no-undo")
	contains(t, out, "adopted 1")
}
