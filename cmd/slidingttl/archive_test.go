package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestArchive(t *testing.T) {
	path := t.TempDir()
	b, err := archive.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := archive.NewWriter(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	today := driver.Floor(time.Now())
	for n := range 3 {
		var batch []archive.Record
		for i := range 10 {
			for _, days := range []int{1, 40} {
				died := today.Add(time.Duration(-days) * 24 * time.Hour)
				batch = append(batch, archive.Record{
					Key: fmt.Sprint("key-", 8*n+i), CreatedAt: died.Add(-time.Hour), ExpiredAt: died,
					Reason: archive.Age, Format: "json", Value: []byte(`{"n":1}`),
				})
			}
		}
		if err := w.Write(t.Context(), "links", batch); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := command(t, 0, "archive", "stats", path)
	contains(t, out, "2 days", "60 rows in 6 files")
	out, _ = command(t, 0, "archive", "compact", path, "--keep-days", "30")
	contains(t, out, "files of 2 merged: 6 into 2", "60 rows, of which 8", "would be removed, a dry run: 26 rows")
	out, _ = command(t, 0, "archive", "find", path, "key-7")
	contains(t, out, "died (age), from links", `value {"n":1}`)
	out, _ = command(t, 0, "archive", "find", path, "key-7", "--json", "--from", archive.DayOf(today.Add(-48*time.Hour)).String())
	var found []map[string]any
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found) != 1 || found[0]["key"] != "key-7" || found[0]["value"] == nil {
		t.Errorf("%v: %s", err, out)
	}
	out, _ = command(t, exitDead, "archive", "find", path, "nobody")
	contains(t, out, "holds no record")
	out, _ = command(t, 0, "archive", "list", path)
	if n := strings.Count(out, "\n"); n != 52 {
		t.Errorf("%d lines; want 52", n)
	}
	out, _ = command(t, 0, "archive", "forget", path, "key-7")
	contains(t, out, "2 records in 2 files would be forgotten, a dry run")
	out, _ = command(t, 0, "archive", "forget", path, "key-7", "--apply")
	contains(t, out, "2 records forgotten; 2 files rewritten", "0 found by a second pass over all days")
	command(t, exitDead, "archive", "find", path, "key-7")
	out, _ = command(t, 0, "archive", "compact", path, "--keep-days", "30", "--apply", "--json")
	contains(t, out, `"days": 1`, `"rows": 25`)
	out, _ = command(t, 0, "archive", "verify", path)
	contains(t, out, "25 rows in 1 files", "0 files are corrupt")

	command(t, 0, "archive", "verify", path, "--from", "2001-01-01", "--to", "2001-01-02")
	for _, args := range [][]string{{"verify"}, {"forget", "key-7", "--apply"}} { // of what the archive is in
		_, errs := command(t, exitUsage, slices.Insert(append([]string{"archive"}, args...), 2, filepath.Dir(path))...)
		contains(t, errs, "has no day, and "+filepath.Base(path)+" has some")
	}

	file, err := filepath.Glob(filepath.Join(path, "day=*", "*.parquet"))
	if err != nil || len(file) != 1 {
		t.Fatal(file, err)
	}
	if err := os.Truncate(file[0], 100); err != nil {
		t.Fatal(err)
	}
	out, errs := command(t, exitFailed, "archive", "verify", path)
	contains(t, out, "1 files are corrupt")
	contains(t, errs, filepath.Base(file[0])+" is corrupt")
	if err := os.Remove(file[0]); err != nil {
		t.Fatal(err)
	}
	out, errs = command(t, exitFailed, "archive", "compact", path, "--keep-days", "1", "--apply")
	contains(t, out, "0 days before") // the day of yesterday is kept, and retention went on
	contains(t, errs, filepath.Base(file[0])+" is corrupt")
	out, _ = command(t, 0, "archive", "repair", path)
	contains(t, out, "1 days have faults: 1 files with 25 rows are lost, 0 files restored, a dry run", "lost day=")
	command(t, 0, "archive", "repair", path, "--apply")
	out, _ = command(t, 0, "archive", "verify", path)
	contains(t, out, "0 rows in 0 files", "0 files are corrupt")
}

func TestArchiveUsage(t *testing.T) {
	day := filepath.Join(t.TempDir(), "day=2026-11-22")
	if err := os.MkdirAll(filepath.Join(day, "archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no archive":   {"archive", "stats"},
		"no such":      {"archive", "stats", filepath.Join(t.TempDir(), "none")},
		"bad day":      {"archive", "list", t.TempDir(), "--from", "yesterday"},
		"bad bucket":   {"archive", "stats", "s3:///x"},
		"bad name":     {"archive", "stats", "s3://bucket/?regoin=x"},
		"unknown verb": {"archive", "bury", "--x"},
		"no one":       {"archive", "forget", t.TempDir()},
		"two ways":     {"archive", "forget", t.TempDir(), "key", "--prefix", "k"},
		"no list":      {"archive", "forget", t.TempDir(), "--keys", filepath.Join(t.TempDir(), "none")},
		"two keys":     {"archive", "forget", t.TempDir(), "a", "b"},
		"a day's own":  {"archive", "forget", day + "/", "key", "--apply"},
		"one in S3":    {"archive", "stats", "s3://bucket/dead/day=2026-11-22/?region=eu-central-1"},
		"below a day":  {"archive", "stats", filepath.Join(day, "archive")},
		"in S3 too":    {"archive", "stats", "s3://bucket/day%3D1/dead/?region=eu-central-1"},
		"turned days":  {"archive", "verify", t.TempDir(), "--from", "2026-12-01", "--to", "2026-11-01"},
		"no days":      {"archive", "compact", t.TempDir(), "--keep-days", "0"},
	} {
		t.Run(name, func(t *testing.T) { command(t, exitUsage, args...) })
	}
	t.Chdir(day)
	_, errs := command(t, exitUsage, "archive", "stats", "archive")
	contains(t, errs, "day=2026-11-22")
}

// The view of an archive in S3 names the bucket where the command itself finds it.
func TestFilesInS3(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	for uri, want := range map[string]string{
		"s3://links/dead/":                                "https://links.s3.eu-central-1.amazonaws.com",
		"s3://links/dead/?region=us-west-2":               "https://links.s3.us-west-2.amazonaws.com",
		"s3://links/dead/?endpoint=http://127.0.0.1:9000": "http://127.0.0.1:9000/links",
	} {
		if root, url, err := inS3(t.Context(), uri); err != nil || root != "s3://links/dead/" || url != want {
			t.Errorf("%s: %q, %q, %v", uri, root, url, err)
		}
	}
}

// TestPrintedKey: a key as archive list prints it finds and forgets its record, also where it is no text.
func TestPrintedKey(t *testing.T) {
	for _, key := range []string{"k\xff", "base64:abc"} {
		dir := filepath.Join(t.TempDir(), "a")
		w := must(archive.NewWriter(must(archive.OpenDirectory(dir))(t), nil))(t)
		record := archive.Record{Key: key, ExpiredAt: driver.Floor(time.Now().Add(-time.Hour))}
		if err := w.Write(t.Context(), "a", []archive.Record{record}); err != nil {
			t.Fatal(err)
		}
		out, _ := command(t, 0, "archive", "list", dir)
		var printed struct{ Key string }
		if err := json.Unmarshal([]byte(out), &printed); err != nil {
			t.Fatal(err)
		}
		command(t, 0, "archive", "find", dir, printed.Key)
		out, _ = command(t, 0, "archive", "forget", dir, printed.Key)
		contains(t, out, "1 records in 1 files would be forgotten")
		keys := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(keys, []byte(printed.Key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ = command(t, 0, "archive", "forget", dir, "--keys", keys, "--apply", "--yes")
		contains(t, out, "1 records forgotten")
	}
	command(t, exitUsage, "archive", "forget", t.TempDir(), "base64:a")
}
