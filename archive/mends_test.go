package archive_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// An archive or a day that is a symbolic link is read, verified, compacted and forgotten like any
// other. A link to nothing is an error, since what it should hold is not absent.
func TestSymbolicLinks(t *testing.T) {
	_, path := directory(t)
	root := filepath.Join(t.TempDir(), "archive")
	ok(t, os.Symlink(path, root))
	b, err := archive.OpenDirectory(root)
	ok(t, err)
	w := writer(t, b)
	write(t, w, batch(0, 3, 0), batch(3, 5, 0), batch(5, 7, 1))
	days := t.TempDir()
	for _, day := range []string{"day=2026-11-22", "day=2026-11-23"} {
		ok(t, os.Rename(filepath.Join(path, day), filepath.Join(days, day)))
		ok(t, os.Symlink(filepath.Join(days, day), filepath.Join(path, day)))
	}
	if found := all(t, b); len(found) != 7 {
		t.Errorf("%d records are found", len(found))
	}
	if r, err := archive.NewReader(b).Verify(t.Context(), nil); err != nil || r.Rows != 7 {
		t.Errorf("verified: %+v, %v", r, err)
	}
	if r, err := archive.Compact(t.Context(), b, nil); err != nil || r.Counts["merged"] != 1 {
		t.Errorf("compacted: %+v, %v", r, err)
	}
	key := dead(5, 1).Key
	if r, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{key}}, nil); err != nil || r.Records != 1 {
		t.Errorf("forgotten: %+v, %v", r, err)
	}
	if names := holders(t, b, key); len(names) > 0 {
		t.Errorf("what was forgotten is in %q", names)
	}
	if found := all(t, b); len(found) != 6 {
		t.Errorf("%d records are left", len(found))
	}
	// A file that was moved elsewhere goes with its link.
	names, err := filepath.Glob(filepath.Join(days, "day=2026-11-23", "*.parquet"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	ok(t, os.Rename(names[0], moved))
	ok(t, os.Symlink(moved, names[0]))
	if r, err := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{dead(6, 1).Key}}, nil); err != nil || r.Records != 1 {
		t.Errorf("forgotten: %+v, %v", r, err)
	}
	if _, err := os.Stat(moved); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	ok(t, os.RemoveAll(filepath.Join(days, "day=2026-11-22")))
	if _, err := archive.NewReader(b).Find(t.Context(), key, archive.Span{}); err == nil {
		t.Error("a day that is a link to nothing is empty")
	}
}

// A record whose times no reader can show is set aside: found, forgotten, and listed as JSON.
func TestTimesOutOfRange(t *testing.T) {
	b := newFake()
	born := at(noon.AddDate(0, 0, -1))
	year := func(y int) driver.Instant { return driver.Floor(time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)) }
	records := map[string]archive.Record{
		"died before year 0":  {ExpiredAt: year(-4000)},
		"died at the start":   {ExpiredAt: math.MinInt64},
		"born before year 0":  {CreatedAt: year(-1), ExpiredAt: born},
		"born in µs":          {CreatedAt: born * 1000, ExpiredAt: born},
		"born in ns":          {CreatedAt: born * 1000000, ExpiredAt: born},
		"born at the end":     {CreatedAt: math.MaxInt64, ExpiredAt: born},
		"died in µs":          {CreatedAt: born, ExpiredAt: born * 1000},
		"and one that is odd": {CreatedAt: born, ExpiredAt: born, Reason: "other"},
	}
	var cut lot
	cut.Source = "links"
	for key, r := range records {
		r.Key, r.Value = key, []byte("{}")
		cut.Records = append(cut.Records, r)
	}
	cut.Records = append(cut.Records, dead(1, 0))
	write(t, writer(t, b), cut)
	found := all(t, b)
	if len(found) != len(records)+1 {
		t.Fatalf("%d records are found", len(found))
	}
	for _, a := range found {
		if _, err := json.Marshal(a); err != nil {
			t.Errorf("%s: %v", a.Key, err)
		}
		if a.Key != dead(1, 0).Key && a.Columns["problem"] == nil {
			t.Errorf("%s has no problem", a.Key)
		}
	}
	for key := range records {
		if again, err := archive.NewReader(b).Find(t.Context(), key, archive.Span{}); err != nil || len(again) != 1 {
			t.Errorf("%s is found as %+v, %v", key, again, err)
		}
	}
	compact(t, b)
	if again := all(t, b); len(again) != len(found) {
		t.Errorf("%d records are found after Compact", len(again))
	}
}

// A death is dated when its life began, if that is later than its expiry; unless no clock can have
// been that far ahead.
func TestBuriedBeforeBirth(t *testing.T) {
	b := newFake()
	g := &archive.Archiver{Writer: writer(t, b), Source: "links"}
	midnight := noon.Truncate(24 * time.Hour)
	life := func(born, expired time.Time) driver.Raw {
		return driver.Raw{Meta: driver.Meta{Life: driver.Life{CreatedAt: at(born), ExpiresAt: at(expired)}}, Value: []byte("{}")}
	}
	ok(t, g.Archive(t.Context(), []driver.Dead{
		{Key: "a", Raw: life(midnight.Add(20*time.Second), midnight.Add(-30*time.Second)), At: at(midnight.Add(-30 * time.Second))},
		{Key: "b", Raw: life(noon.AddDate(1, 0, 0), noon), At: at(noon)},
	}))
	found := all(t, b)
	if len(found) != 2 || found[0].Key != "a" || found[0].ExpiredAt != at(midnight.Add(20*time.Second)) || archive.DayOf(found[0].ExpiredAt) != archive.DayOf(at(midnight)) {
		t.Errorf("found %+v", found)
	}
	if found[len(found)-1].Columns["problem"] == nil {
		t.Errorf("a life that begins in a year is no problem: %+v", found)
	}
}

// A day whose manifest another version wrote is refused by all operations, and left as it is.
func TestOtherVersions(t *testing.T) {
	for name, version := range map[string]string{"later": `"version":9`, "earlier": `"version":1,"was":`} {
		b := newFake()
		write(t, writer(t, b), batch(0, 2, 0), batch(2, 4, 0))
		compact(t, b)
		write(t, writer(t, b), batch(4, 5, 0), batch(0, 2, 1))
		for name, content := range b.clone().files {
			if strings.Contains(name, "_manifest-") {
				other := strings.Replace(string(content), `"version":`, version, 1)
				b.files[name] = []byte(strings.Replace(other, `"sum":"`, `"sum":"other`, 1)) // it counts the version
			}
		}
		day := func() (n int) {
			for name := range b.files {
				if strings.HasPrefix(name, "day=2026-11-22/") {
					n++
				}
			}
			return n
		}
		before := day()
		_, compacted := archive.Compact(t.Context(), b, nil)
		_, forgotten := archive.Forget(t.Context(), b, archive.Selection{Keys: []string{dead(1, 0).Key}}, nil)
		_, found := archive.NewReader(b).Find(t.Context(), dead(1, 1).Key, archive.Span{})
		_, retained := archive.Retain(t.Context(), b, 2, &archive.Walk{Apply: true, Now: func() time.Time { return noon.AddDate(0, 0, 3) }})
		for op, err := range map[string]error{"Compact": compacted, "Forget": forgotten, "Find": found, "Retain": retained} {
			if !errors.Is(err, archive.ErrVersion) || !strings.Contains(err.Error(), "2026-11-22") {
				t.Errorf("%s: %s: %v", name, op, err)
			}
		}
		if day() != before {
			t.Errorf("%s: %q are left", name, files(t, b))
		}
	}
}

// Engines that ignore the case of names would take such a column for one of the archive's own.
func TestColumnsOfOneNameButForCase(t *testing.T) {
	of := func(*archive.Record) (string, bool, error) { return "", false, nil }
	for _, names := range [][]string{{"Key"}, {"VALUE"}, {"Day"}, {"user", "User"}} {
		var o archive.WriterOptions
		for _, name := range names {
			o.Columns = append(o.Columns, archive.NewColumn(name, of))
		}
		if _, err := archive.NewWriter(newFake(), &o); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("columns %q: %v", names, err)
		}
	}
}

// A file that is lost stops neither the removal of old days, nor that of its own day.
func TestRetainBesideLostFile(t *testing.T) {
	b := newFake()
	write(t, writer(t, b), batch(0, 2, 0), batch(2, 4, 0), batch(0, 2, 1), batch(2, 4, 1), batch(0, 2, 3))
	compact(t, b)
	for name := range b.clone().files {
		if strings.HasSuffix(name, ".parquet") && !strings.Contains(name, "11-25") {
			delete(b.files, name)
		}
	}
	r, err := archive.Retain(t.Context(), b, 2, &archive.Walk{Apply: true, Now: func() time.Time { return noon.AddDate(0, 0, 3) }})
	if err != nil || r.Span.To+1 != archive.DayOf(at(noon.AddDate(0, 0, 1))) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := archive.NewReader(b).Names(t.Context(), archive.Span{To: r.Span.To}); err != nil {
		t.Errorf("the days that were removed: %v", err)
	}
}
