package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
)

// Reap and adopt leave alone what middleware/session stores, though the application's policy calls
// it past its cap: remembered sessions and users' indexes live by policies of their own. The
// records are those of an earlier version, which carry no mark. Records that only look like them
// are plain.
func TestSessionsAreSpared(t *testing.T) {
	var stored map[string][]byte
	if err := json.Unmarshal(must(os.ReadFile("testdata/sessions-earlier.json"))(t), &stored); err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	client := server.Client(t)
	set := func(key, value string, created time.Time) {
		t.Helper()
		header := fmt.Sprintf("\x00sl1 %015d %015d %016x ", created.UnixMilli(), time.Now().Add(time.Hour).UnixMilli(), 7)
		if created.IsZero() {
			header = ""
		}
		if err := client.Do(t.Context(), client.B().Set().Key(key).Value(header+value).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-10 * 24 * time.Hour)
	for key, value := range stored {
		set(key, string(value[len("\x00sl1 000000000000000 000000000000000 0000000000000000 "):]), past)
	}
	set("web:s:aaaaaaaaaaaaaaaaaaaaaaaa", `{"token": "of a payment", "kind": 7}`, past)
	set("web:users:507f1f77bcf86cd799439011", `{"kind": "admin"}`, past)
	set("web:orders:507f1f77bcf86cd799439011", `{"n": 1}`, time.Time{})
	uri := "redis://" + server.Option().InitAddress[0] + "?prefix=web:"
	const own = "idle 30m, max 12h"

	out, _ := command(t, 0, "audit", uri, "--policy", own)
	contains(t, out, "4 look like sessions, and 2 like indexes")
	out, _ = command(t, 0, "adopt", uri, "--policy", own, "--apply", "--no-undo")
	contains(t, out, "adopted 1")
	out, _ = command(t, 0, "mend", uri, "--apply")
	contains(t, out, "well 8")
	out, _ = command(t, 0, "reap", uri, "--policy", own, "--apply")
	contains(t, out, "removed: past their cap 2", "left: sessions and their indexes, see --kinds 5")
	for key := range stored {
		if n := must(client.Do(t.Context(), client.B().Exists().Key(key).Build()).AsInt64())(t); n != 1 {
			t.Errorf("%s was removed", key)
		}
	}
	for _, narrow := range []string{"s:", "u:"} { // the driver's keys then have no mark of a kind
		out, _ = command(t, 0, "reap", uri+narrow, "--policy", own, "--apply")
		contains(t, out, "removed: past their cap 0", "left: sessions and their indexes, see --kinds")
		out, _ = command(t, 0, "audit", uri+narrow, "--policy", own)
		contains(t, out, "look like")
	}
	out, _ = command(t, 0, "reap", uri, "--policy", own, "--apply", "--kinds", "session")
	contains(t, out, "removed: past their cap 3", "left: sessions and their indexes, see --kinds 2")
	out, _ = command(t, 0, "reap", uri, "--policy", own, "--apply", "--kinds", "session,index", "--json")
	if !strings.Contains(out, `"past_cap": 2`) {
		t.Errorf("named, they are left:\n%s", out)
	}
	_, errs := command(t, exitUsage, "reap", uri, "--policy", own, "--kinds", "user")
	contains(t, errs, "must be session or index")
}
