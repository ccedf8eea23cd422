package redis_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// After an erasure the server's own RDB file holds nothing of it, with save points or without, saved by
// hand or loaded; or the report names the file. Keys of another type stay, and are counted.
func TestErase(t *testing.T) {
	for name, c := range map[string]struct {
		points                  string
		saved, restart, uncount bool
	}{
		"with save points":         {points: "3600 1000", saved: true},
		"saved by hand":            {saved: true},
		"saved before a restart":   {saved: true, restart: true}, // it has loaded its AOF, and knows of no RDB file
		"saved and not counted":    {saved: true, uncount: true},
		"nothing was saved by now": {},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.StartDurable(t)
			client := server.Client(t)
			ctx := t.Context()
			do := func(words ...string) map[string]string {
				t.Helper()
				a := client.Do(ctx, client.B().Arbitrary(words...).Build())
				ok(t, words[0], a.Error())
				texts, _ := a.AsStrMap()
				return texts
			}
			do("CONFIG", "SET", "save", c.points)
			d := open[profile](t, client, redis.Options{Prefix: "app:"})
			now := driver.Floor(time.Now())
			for _, key := range []string{"user:42:a", "user:43:a"} {
				_, err := d.Insert(ctx, key, profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
				ok(t, "Insert", err)
			}
			for _, key := range []string{"app:user:42:list", "app:user:42:more", "app:user:43:list"} {
				do("RPUSH", key, "of another type")
			}
			if c.saved {
				do("SAVE")
			}
			if c.restart {
				server.Restart(t)
				do("CONFIG", "SET", "save", c.points)
			}
			if c.uncount {
				do("CONFIG", "RESETSTAT")
			}
			dump := filepath.Join(do("CONFIG", "GET", "dir")["dir"], do("CONFIG", "GET", "dbfilename")["dbfilename"])
			held := func() bool {
				content, err := os.ReadFile(dump)
				return err == nil && bytes.Contains(content, []byte("user:42:a"))
			}
			if held() != c.saved {
				t.Fatalf("the file holds it: %v", !c.saved)
			}
			for _, apply := range []bool{false, true} {
				r, err := upkeep.Erase(ctx, d, &upkeep.EraseOptions{WriteOptions: upkeep.WriteOptions{Apply: apply, Options: upkeep.Options{Prefix: "user:42:"}}})
				if err != nil || r.Counts["erased"] != 1 || r.Counts["others"] != 2 || r.Counts["missed"] != 0 {
					t.Errorf("%+v, %v", r, err)
				}
				unsure := !c.saved || c.restart || c.uncount
				if apply && (held() && !unsure || len(r.Left) > 0 != unsure || unsure && !strings.Contains(r.Left[0], "no save points")) {
					t.Errorf("it is held: %v; left %q", held(), r.Left)
				}
			}
			r, err := upkeep.Erase(ctx, d, &upkeep.EraseOptions{WriteOptions: upkeep.WriteOptions{Keys: []string{"user:42:list", "user:42:a", "user:43:a"}}})
			if err != nil || r.Counts["erased"] != 1 || r.Counts["others"] != 1 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// A copy at a node that does not serve it is out of an erasure's reach, whether the program wrote the record again or not:
// the report tells of it.
func TestErasureOfAStrandedCopy(t *testing.T) {
	for _, again := range []bool{false, true} {
		cluster := redistest.StartCluster(t)
		d := open[profile](t, cluster.Client(t), redis.Options{Prefix: "p:"})
		to := moving(t, cluster, "p:moving")
		now := driver.Floor(time.Now())
		life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
		_, err := d.Insert(t.Context(), "moving", profile{}, life, now)
		ok(t, "Insert", err)
		slot, err := to.Do(t.Context(), to.B().Arbitrary("CLUSTER", "KEYSLOT", "p:moving").Build()).AsInt64()
		ok(t, "KEYSLOT", err)
		for _, admin := range clients(t, cluster) {
			ok(t, "SETSLOT", admin.Do(t.Context(), admin.B().Arbitrary("CLUSTER", "SETSLOT", fmt.Sprint(slot), "STABLE").Build()).Error())
		}
		if again {
			_, err = d.Insert(t.Context(), "moving", profile{}, life, now)
			ok(t, "Insert again", err)
		}
		for key, want := range map[string]bool{"moving": true, "another": false} {
			r, err := upkeep.Erase(t.Context(), d, &upkeep.EraseOptions{WriteOptions: upkeep.WriteOptions{Keys: []string{key}, Apply: true}})
			ok(t, "Erase", err)
			if told := slices.ContainsFunc(r.Left, func(s string) bool { return strings.Contains(s, "another serves (1)") }); told != want {
				t.Errorf("written again %v: the erasure of %s leaves %q", again, key, r.Left)
			}
		}
		left, err := d.Scrub(t.Context(), driver.Erasure{Prefix: "mov"})
		if told := slices.ContainsFunc(left, func(s string) bool { return strings.Contains(s, "another serves (1)") }); !told || err != nil {
			t.Errorf("by prefix: %q, %v", left, err)
		}
	}
}
