package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
)

// Records named by key, list or prefix end for every process, and what was not ended is counted.
func TestRetireOnSQLite(t *testing.T) {
	db, uri := sessionsIn(t, 50)
	execute(t, db, `CREATE TRIGGER frozen BEFORE UPDATE ON sessions WHEN old.id = 'user:007' BEGIN SELECT RAISE(ABORT, 'this row is frozen'); END`)
	named := filepath.Join(t.TempDir(), "errors")
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("user:006\n\"user:007\"\n\nnobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	alive := func() (n int) {
		t.Helper()
		if err := db.QueryRow("SELECT count(*) FROM sessions WHERE expires_at IS NULL OR expires_at > ?", time.Now().UnixMilli()).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}

	out, _ := command(t, 0, "retire", uri, "user:005")
	contains(t, out, "a dry run", "would be retired 1", "not found, or dead already 0")
	if n := alive(); n != 50 {
		t.Fatalf("a dry run leaves %d alive", n)
	}
	out, _ = command(t, 0, "retire", uri, "user:005", "--apply")
	contains(t, out, "retired 1")
	_, _ = command(t, exitDead, "inspect", uri, "user:005", "--policy", thirty)
	out, _ = command(t, exitPartly, "retire", uri, "--keys", list, "--apply", "--errors", named)
	contains(t, out, "retired 1", "not found, or dead already 1", "1 failed", "row must be one that the table takes")
	execute(t, db, "DROP TRIGGER frozen")
	out, _ = command(t, 0, "retire", uri, "--keys", named, "--apply")
	contains(t, out, "1 records looked at", "retired 1")
	out, _ = command(t, 0, "retire", uri, "--prefix", "user:00", "--apply")
	contains(t, out, "10 records looked at", "retired 7", "not found, or dead already 3")
	if n := alive(); n != 40 {
		t.Errorf("%d are alive; want 40", n)
	}
	for _, args := range [][]string{{}, {"user:001", "--prefix", "user"}} {
		_, errs := command(t, exitUsage, append([]string{"retire", uri}, args...)...)
		contains(t, errs, "a KEY or --keys")
	}
}

// A death that a retirement dates further back than the last harvest came would be archived by none: harvest takes
// the same --max-skew, and retire warns where harvest's default --grace is too short for it.
func TestRetireBeforeHarvest(t *testing.T) {
	db, uri := sessionsIn(t, 2)
	execute(t, db, "UPDATE sessions SET created_at = (unixepoch() - 7200) * 1000, expires_at = (unixepoch() + 600) * 1000")
	harvest := []string{"harvest", uri + "&retain=30d", t.TempDir(), "--source", "a", "--policy", thirty, "--apply"}
	_, errs := command(t, exitUsage, append(harvest, "--max-skew", "15m")...)
	contains(t, errs, "--grace is 10m0s: must exceed 30m", "twice --max-skew")
	harvest = append(harvest, "--max-skew", "15m", "--grace", "31m")
	command(t, 0, harvest...)
	const warning = "every harvest of this store, also an earlier one, needs --max-skew"
	_, errs = command(t, 0, "retire", uri, "user:000", "--apply", "--max-skew", "4m59s")
	if strings.Contains(errs, warning) {
		t.Error(errs)
	}
	for _, skew := range []string{"5m", "15m"} {
		_, errs = command(t, 0, "retire", uri, "user:001", "--max-skew", skew)
		contains(t, errs, "--max-skew is "+skew, warning)
	}
	out, errs := command(t, 0, "retire", uri, "user:001", "--apply", "--max-skew", "15m")
	contains(t, out+errs, "retired 1", warning)
	out, _ = command(t, 0, harvest...)
	contains(t, out, "alive, or dead not long enough 2")
	if strings.Contains(out, "left to an earlier harvest") {
		t.Error(out)
	}
}

// On Redis a retired record that is not retained goes at once, one that is retained stays as a dead
// one does, and sessions and their indexes are left alone.
func TestRetireOnRedis(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	get := func(key string) string {
		v, _ := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
		return v
	}
	session := "web:s:" + strings.Repeat("a", 24)
	now := time.Now()
	for key, value := range map[string]string{"web:link:1": `{}`, "web:link:2": `{}`, "web:other": `{}`, session: `{"kind": 1}`} {
		header := fmt.Sprintf("\x00sl1 %015d %015d %016x ", now.Add(-time.Hour).UnixMilli(), now.Add(time.Hour).UnixMilli(), 7)
		if err := client.Do(t.Context(), client.B().Set().Key(key).Value(header+value).Px(time.Hour).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	uri := "redis://" + server.Option().InitAddress[0] + "?prefix=web:"
	out, _ := command(t, 0, "retire", uri, "link:1", "--apply")
	contains(t, out, "retired 1")
	if v := get("web:link:1"); v != "" {
		t.Errorf("it is still %q", v)
	}
	out, _ = command(t, 0, "retire", uri+"&retain=30d", "link:2", "--apply", "--max-skew", "10m")
	contains(t, out, "retired 1")
	var created, expires int64
	v := get("web:link:2")
	if _, err := fmt.Sscanf(strings.TrimLeft(v, "\x00sl1 "), "%d %d", &created, &expires); err != nil {
		t.Fatalf("%q: %v", v, err)
	}
	ago := time.Since(time.UnixMilli(expires)).Round(time.Second) // it was written by Redis' clock, as far as it is known
	if ago < 10*time.Minute || ago > 11*time.Minute {
		t.Errorf("it died %v ago; want ten minutes", ago)
	}
	out, _ = command(t, 0, "retire", uri, "--prefix", "s:", "--apply")
	contains(t, out, "retired 0", "left: sessions and their indexes, see --kinds 1")
	if get(session) == "" || get("web:other") == "" {
		t.Error("a record is gone that was not named")
	}
	out, _ = command(t, 0, "retire", uri, "s:"+strings.Repeat("a", 24), "--apply", "--kinds", "session")
	contains(t, out, "retired 1")
}

// A key of a store that begins with base64: is that key, in a list as in an argument.
func TestRetireBase64(t *testing.T) {
	for _, listed := range []bool{false, true} {
		db, uri := sessionsIn(t, 5)
		key := "base64:AAAA"
		execute(t, db, fmt.Sprintf(`UPDATE sessions SET id = '%s' WHERE id = 'user:001'`, key))
		args := []string{"retire", uri, key, "--apply"}
		if listed {
			list := filepath.Join(t.TempDir(), "stolen.txt")
			if err := os.WriteFile(list, []byte("\ufeff"+key+"\r\nuser:002\r\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			args = []string{"retire", uri, "--keys", list, "--apply"}
		}
		out, _ := command(t, 0, args...)
		var alive int
		if err := db.QueryRow("SELECT count(*) FROM sessions WHERE id = ? AND (expires_at IS NULL OR expires_at > ?)", key, time.Now().UnixMilli()).Scan(&alive); err != nil || alive != 0 {
			t.Errorf("listed %v: it is alive, %v: %s", listed, err, out)
		}
	}
}
