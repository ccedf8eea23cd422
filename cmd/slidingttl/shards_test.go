package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// Shards have every record between them, and none twice; what they find adds up to what one
// run finds. A store is split once, into no more parts than it offers.
func TestShards(t *testing.T) {
	const shards = 3
	_, uri := sessionsIn(t, 300)
	place := filepath.Join(t.TempDir(), "pla[ce.json") // no pattern
	adopt := []string{"adopt", uri, "--policy", thirty, "--apply", "--writes", "0", "--checkpoint", place}
	out, _ := command(t, 0, append(adopt, "--shards", fmt.Sprint(shards))...)
	contains(t, out, place+".1of3 to "+place+".3of3")
	_, errs := command(t, exitUsage, append(adopt, "--shards", fmt.Sprint(shards))...)
	contains(t, errs, place+".1of3 is there already")
	command(t, exitUsage, append(adopt, "--shards", "2", "--resume")...)
	found := 0
	for i := range shards {
		_, errs := command(t, exitUsage, append(adopt, "--merge")...)
		contains(t, errs, fmt.Sprintf("%s.%dof3 is not done", place, i+1))
		out, _ := command(t, 0, "adopt", uri, "--policy", thirty, "--apply", "--writes", "0", "--checkpoint", fmt.Sprintf("%s.%dof3", place, i+1), "--resume", "--json")
		var r upkeep.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil || r.Counts["adopted"] == 0 || r.Counts["adopted"] != r.Records {
			t.Errorf("%v: %s", err, out)
		}
		found += int(r.Counts["adopted"])
	}
	if found != 300 {
		t.Errorf("%d records were adopted", found)
	}
	first, second := must(os.ReadFile(place+".1of3"))(t), must(os.ReadFile(place+".2of3"))(t)
	write := func(end string, content []byte) {
		t.Helper()
		if err := os.WriteFile(place+end, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(".1of3.lock", nil) // as a kill leaves it
	write(".2of3", first)
	_, errs = command(t, exitUsage, append(adopt, "--merge")...)
	contains(t, errs, ".2of3 is a copy of another shard")
	write(".2of3", second)
	out, _ = command(t, 0, append(adopt, "--merge")...)
	contains(t, out, "300 records looked at", "in 4 runs", "adopted 300")
	_, errs = command(t, exitUsage, "audit", uri, "--policy", thirty, "--checkpoint", place, "--merge")
	contains(t, errs, "of adopt", "audit")
	_, errs = command(t, exitUsage, "audit", uri, "--policy", thirty, "--checkpoint", place+"x", "--merge")
	contains(t, errs, "--merge needs the files that --shards has written")
	_, errs = command(t, exitUsage, "audit", uri, "--policy", thirty, "--shards", "2")
	contains(t, errs, "need a --checkpoint")

	server := redistest.Start(t)
	redis := "redis://" + server.Option().InitAddress[0]
	_, errs = command(t, exitUsage, "audit", redis, "--policy", thirty, "--checkpoint", place+"y", "--shards", "2")
	contains(t, errs, "must be at most 1")
}
